/**
 * What becomes of a request in the inline Belfry, by the rules of the real one: a dedupe key is held while
 * its run waits, or for its window; a job that debounces or collects has one run that takes inputs until it
 * is due.
 */
import type { Gathered, JsonValue, RunCreate } from '@belfry/contract'
import { inputAt, maxInputBytes, utf8Bytes } from '@belfry/contract'
import type { AnyJob } from '@belfry/sdk'

interface WaitingRun {
  readonly id: string
  readonly state: string
  readonly attempts: number
  input: unknown
  dueAt: Date
  duplicate: boolean
  duplicateOf: string | null
  gathered: Gathered | null
}

interface Open<Run> {
  readonly run: Run
  readonly openedMs: number
  items: number
  isFull: boolean
}

/** Makes the run; due at an instant of the gathering's, or when it was asked for. */
type Make<Run> = (dueMs: number | undefined) => Run

export function createInlineRequests<Run extends WaitingRun>() {
  const held = new Map<string, { readonly run: Run; readonly untilMs: number | null }>()
  const open = new Map<string, Open<Run>>()

  function take(job: AnyJob, body: RunCreate, nowMs: number, make: Make<Run>): Run {
    const key = body.dedupeKey === undefined ? undefined : JSON.stringify([job.name, body.dedupeKey])
    const holder = key === undefined ? undefined : held.get(key)
    if (holder !== undefined && isHeld(holder, nowMs)) {
      const { run } = holder
      return seenAs(run, { duplicate: true, duplicateOf: run.id, gathered: null })
    }
    const { run, answer } = gather(job, body, nowMs, make)
    const windowMs = body.dedupe?.windowMs
    if (key !== undefined) held.set(key, { run, untilMs: windowMs === undefined ? null : nowMs + windowMs })
    return answer
  }

  function gather(job: AnyJob, body: RunCreate, nowMs: number, make: Make<Run>): { run: Run; answer: Run } {
    const { debounce, collect } = job.registration
    const rule = debounce ?? collect
    if (rule === undefined || rule === null) {
      const run = make(undefined)
      return { run, answer: run }
    }
    const value = rule.key === null ? undefined : inputAt(body.input, rule.key)
    const key = JSON.stringify([job.name, value ?? null])
    const found = open.get(key)
    const kind = debounce ? 'debounce' : 'collect'
    const fits =
      found !== undefined && takes(found, nowMs) && (kind === 'debounce' || fitsInto(found, body.input))
    const run = fits ? found.run : make(nowMs + rule.windowMs)
    const into = fits ? found : { run, openedMs: nowMs, items: 0, isFull: false }
    if (!fits && found !== undefined && takes(found, nowMs)) found.run.dueAt = new Date(nowMs)
    open.set(key, into)
    into.items++
    if (debounce) {
      run.input = body.input
      run.dueAt = new Date(Math.min(nowMs + debounce.windowMs, into.openedMs + debounce.maxWaitMs))
    } else if (collect) {
      run.input = [...(into.items === 1 ? [] : (run.input as JsonValue[])), body.input ?? null]
      into.isFull = into.items >= collect.maxItems
      if (into.isFull) run.dueAt = new Date(nowMs)
    }
    const gathered = { kind, position: into.items } as const
    if (fits) return { run, answer: seenAs(run, { gathered }) }
    run.gathered = gathered
    return { run, answer: run }
  }

  return { take }
}

const isHeld = ({ run, untilMs }: { run: WaitingRun; untilMs: number | null }, nowMs: number): boolean =>
  untilMs === null ? run.state === 'pending' : untilMs > nowMs

const takes = ({ run, isFull }: Open<WaitingRun>, nowMs: number): boolean =>
  !isFull && run.state === 'pending' && run.attempts === 0 && run.dueAt.getTime() > nowMs

const fitsInto = ({ run }: Open<WaitingRun>, input: JsonValue | undefined): boolean =>
  utf8Bytes(JSON.stringify([...(run.input as JsonValue[]), input ?? null])) <= maxInputBytes

/** The run itself, in all that happens to it, with what this request is told of it. */
const seenAs = <Run extends WaitingRun>(run: Run, told: Partial<WaitingRun>): Run =>
  Object.assign(Object.create(run) as Run, told)
