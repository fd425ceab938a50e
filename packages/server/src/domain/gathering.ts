/**
 * Many requests, one run: which run takes the inputs of a job that debounces or collects, and when it is due.
 * Pure; instants are epoch ms of the database. What is decided here is written under a lock of job and key
 * (postgres/gatherings.ts).
 *
 *   debounce   one run; each request replaces its input and moves its due time, at most to first + maxWait
 *   collect    one run after the other; each takes inputs until it has maxItems, or the next one would not
 * fit
 *              in an input, or its window is over
 */
import { createHash } from 'node:crypto'
import type { Collect, Debounce, JobDefinition, JsonValue } from '@belfry/contract'
import { inputAt, maxInputBytes } from '@belfry/contract'

export type GatherRule = ({ readonly kind: 'debounce' } & Debounce) | ({ readonly kind: 'collect' } & Collect)

/** Null: each request is a run. */
export function gatherRule({
  debounce,
  collect,
}: Pick<JobDefinition, 'debounce' | 'collect'>): GatherRule | null {
  if (debounce !== null) return { kind: 'debounce', ...debounce }
  return collect === null ? null : { kind: 'collect', ...collect }
}

/**
 * What tells the gatherings of a job apart: of the value that the path points at; empty where there is
 * none.
 */
export function gatherKey(input: JsonValue | undefined, path: string | null): string {
  const value = path === null ? undefined : inputAt(input, path)
  if (value === undefined || value === null) return ''
  const text = typeof value === 'string' ? `s${value}` : `j${canonical(value)}`
  return createHash('sha256').update(text).digest('hex').slice(0, 32)
}

/** JSON with the keys of objects in order: equal values are one key. */
function canonical(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`).join(',')}}`
}

/** Brackets of a list. */
export const listBytes = 2
/** Whether one input of so many bytes fits into a list by itself. */
export const fitsAlone = (bytes: number): boolean => bytes + listBytes <= maxInputBytes

/** A run that may take more. `bytes`: of its inputs and the commas between them. */
export interface OpenGathering {
  readonly runId: string
  readonly kind: GatherRule['kind']
  readonly items: number
  readonly bytes: number
  readonly openedMs: number
  readonly dueMs: number
}

export interface GatherStep {
  /** Null: a new one. */
  readonly runId: string | null
  /** After this step. */
  readonly items: number
  readonly bytes: number
  readonly openedMs: number
  readonly dueMs: number
  /** It takes no more. */
  readonly isFull: boolean
  /** Which of the inputs given it takes, with the place of each, from 1 on. */
  readonly taken: readonly { readonly index: number; readonly position: number }[]
}

/**
 * Shares inputs out to runs, in order. The last step is the run that takes the next input, if it can; one
 * before it that is open already is told only if something of it changes.
 */
export function gather(
  rule: GatherRule,
  found: OpenGathering | undefined,
  bytesOf: readonly number[],
  nowMs: number,
): readonly GatherStep[] {
  const open = found?.kind === rule.kind ? found : undefined
  return rule.kind === 'debounce'
    ? [debounced(rule, open, bytesOf.length, nowMs)]
    : collected(rule, open, bytesOf, nowMs)
}

function debounced(
  rule: Debounce,
  open: OpenGathering | undefined,
  count: number,
  nowMs: number,
): GatherStep {
  const openedMs = open?.openedMs ?? nowMs
  const before = open?.items ?? 0
  return {
    runId: open?.runId ?? null,
    items: before + count,
    bytes: 0,
    openedMs,
    dueMs: Math.max(nowMs, Math.min(nowMs + rule.windowMs, openedMs + rule.maxWaitMs)),
    isFull: false,
    taken: Array.from({ length: count }, (_, index) => ({ index, position: before + index + 1 })),
  }
}

function collected(
  rule: Collect,
  open: OpenGathering | undefined,
  bytesOf: readonly number[],
  nowMs: number,
): GatherStep[] {
  const steps: { -readonly [Key in keyof GatherStep]: GatherStep[Key] }[] = []
  let taken: { index: number; position: number }[] = []
  const start = (from: OpenGathering | undefined): void => {
    taken = []
    const fresh = { runId: null, items: 0, bytes: 0, openedMs: nowMs, dueMs: nowMs + rule.windowMs }
    const { runId, items, bytes, openedMs, dueMs } = from ?? fresh
    steps.push({ runId, items, bytes, openedMs, dueMs, isFull: false, taken })
  }
  start(open)
  for (const [index, size] of bytesOf.entries()) {
    let last = steps.at(-1)
    const added = (last?.items ?? 0) === 0 ? size : size + 1
    if (last === undefined || last.isFull || last.items >= rule.maxItems || !fitsAlone(last.bytes + added)) {
      if (last !== undefined) Object.assign(last, { isFull: true, dueMs: Math.min(last.dueMs, nowMs) })
      start(undefined)
      last = steps.at(-1)
    }
    if (last === undefined) continue
    last.bytes += last.items === 0 ? size : size + 1
    last.items++
    taken.push({ index, position: last.items })
    if (last.items >= rule.maxItems) Object.assign(last, { isFull: true, dueMs: Math.min(last.dueMs, nowMs) })
  }
  return steps
}
