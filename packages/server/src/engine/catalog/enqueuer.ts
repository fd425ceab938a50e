/**
 * Takes in requests for runs, one or many, within one transaction:
 *
 *   1. lock the dedupe keys; those that a run holds, or that stand before in the same call, are duplicates
 *   2. lock the gatherings of jobs that debounce or collect; share the inputs out (domain/gathering.ts)
 *   3. make the runs, with their places in the fair order, and store them together
 *   4. hand the keys to their runs
 *
 * A call without keys and gatherings is step 3 alone. What was checked before (run-requests.ts) cannot fail
 * here, so no key is locked for nothing.
 */
import type { Gathered, JsonValue } from '@belfry/contract'
import { utf8Bytes } from '@belfry/contract'
import type { TagClock } from '../../domain/fair-queue.ts'
import { gather, gatherKey, gatherRule, type GatherRule, type GatherStep } from '../../domain/gathering.ts'
import type { NewRun, RunTemplate } from '../../ports/catalog.ts'
import type { Hint } from '../../ports/hints.ts'
import type { Ids } from '../../ports/ids.ts'
import type { RunIntake } from '../../ports/run-intake.ts'
import { laneOfRun, makeRun, type WantedRun } from './run-maker.ts'

export interface AskedRun extends WantedRun {
  readonly template: RunTemplate
  /** Null: none. `windowMs` null: while the run waits or runs. */
  readonly dedupe: { readonly key: string; readonly windowMs: number | null } | null
  /** False: a run of its own, whatever the job says. */
  readonly gathers: boolean
}

export interface EnqueueParts {
  readonly intake: RunIntake
  readonly ids: Ids
  readonly tags: Pick<TagClock, 'next'> & { ready(lanes: Iterable<string>): Promise<void> }
  readonly tenantId: string
  readonly nowMs: number
}

export interface EnqueuedRun {
  readonly runId: string
  /** Where this request made it. */
  readonly made: NewRun | null
  readonly duplicateOf: string | null
  readonly gathered: Gathered | null
  /** Null: of a duplicate. */
  readonly dueAtMs: number | null
}

export interface Enqueued {
  /** One for each request, in order. */
  readonly results: readonly EnqueuedRun[]
  readonly made: readonly NewRun[]
  /** To be made known after the commit. */
  readonly hints: readonly Hint[]
}

export async function enqueueRuns(parts: EnqueueParts, asked: readonly AskedRun[]): Promise<Enqueued> {
  const results: (EnqueuedRun | undefined)[] = asked.map(() => undefined)
  const firsts = await judgeDuplicates(parts, asked, results)
  const { groups, plain } = split(asked, results, firsts)
  const gatherings = groups.length === 0 ? nothing : await shareOut(parts, asked, groups)
  await parts.tags.ready(new Set(lanesOf(parts, asked, plain, gatherings)))
  const made: NewRun[] = []
  for (const index of plain) {
    const run = makeRun(parts, wantedAt(asked, index).template, wantedAt(asked, index))
    made.push(run)
    results[index] = { runId: run.id, made: run, duplicateOf: null, gathered: null, dueAtMs: run.dueAtMs }
  }
  const moves = makeGathered(parts, asked, gatherings, made, results)
  const shards = new Set(await parts.intake.insert(made))
  for (const shard of moves.shards) shards.add(shard)
  await writeGathered(parts, moves)
  const whole = await handOutKeys(parts, asked, results, firsts)
  const queues = new Set(made.flatMap(({ start, queue }) => (start.kind === 'ready' ? [queue] : [])))
  return {
    results: whole,
    made,
    hints: [
      ...[...queues].map((key): Hint => ({ topic: 'ready', key })),
      ...[...shards].map((shard): Hint => ({ topic: 'timers', key: String(shard) })),
      ...(made.some(({ start }) => start.kind === 'waiting') ? [ofDependencies] : []),
    ],
  }
}

const ofDependencies: Hint = { topic: 'dependencies', key: 'any' }

function wantedAt(asked: readonly AskedRun[], index: number): AskedRun {
  const found = asked[index]
  if (found === undefined) throw new RangeError(`There is no request ${index}.`)
  return found
}

const keyText = (jobId: string, key: string): string => `${jobId} ${key}`

/** By key, the request that will hold it: those with it behind are its duplicates. */
type Firsts = ReadonlyMap<string, number>

async function judgeDuplicates(
  { intake, nowMs }: EnqueueParts,
  asked: readonly AskedRun[],
  results: (EnqueuedRun | undefined)[],
): Promise<Firsts> {
  const firsts = new Map<string, number>()
  const keys = asked.flatMap(({ template, dedupe }) =>
    dedupe === null ? [] : [{ jobId: template.jobId, key: dedupe.key }],
  )
  if (keys.length === 0) return firsts
  const held = new Map<string, string>()
  for (const { jobId, key, runId } of await intake.lockKeys(keys, nowMs)) held.set(keyText(jobId, key), runId)
  for (const [index, { template, dedupe }] of asked.entries()) {
    if (dedupe === null) continue
    const text = keyText(template.jobId, dedupe.key)
    const runId = held.get(text)
    if (runId !== undefined) results[index] = duplicateOf(runId)
    else if (!firsts.has(text)) firsts.set(text, index)
  }
  return firsts
}

const duplicateOf = (runId: string): EnqueuedRun => ({
  runId,
  made: null,
  duplicateOf: runId,
  gathered: null,
  dueAtMs: null,
})

/** The duplicates within the call get their answers, and the keys their runs. */
async function handOutKeys(
  { intake, nowMs }: EnqueueParts,
  asked: readonly AskedRun[],
  results: readonly (EnqueuedRun | undefined)[],
  firsts: Firsts,
): Promise<EnqueuedRun[]> {
  const resultAt = (index: number): EnqueuedRun => {
    const found = results[index]
    if (found === undefined) throw new RangeError(`Request ${index} has no result.`)
    return found
  }
  const holds = [...firsts.values()].flatMap((index) => {
    const { template, dedupe } = wantedAt(asked, index)
    if (dedupe === null) return []
    const heldUntilMs = dedupe.windowMs === null ? null : nowMs + dedupe.windowMs
    return [{ jobId: template.jobId, key: dedupe.key, runId: resultAt(index).runId, heldUntilMs }]
  })
  if (holds.length > 0) await intake.holdKeys(holds)
  return asked.map(({ template, dedupe }, index) => {
    const known = results[index]
    if (known !== undefined || dedupe === null) return resultAt(index)
    return duplicateOf(resultAt(firsts.get(keyText(template.jobId, dedupe.key)) ?? index).runId)
  })
}

/** Requests of one job and key that are gathered, by their indexes. */
interface Group {
  readonly jobId: string
  readonly key: string
  readonly rule: GatherRule
  readonly indexes: number[]
}

/** The rest, without duplicates, by what becomes of it. */
function split(
  asked: readonly AskedRun[],
  results: readonly (EnqueuedRun | undefined)[],
  firsts: Firsts,
): { readonly groups: readonly Group[]; readonly plain: readonly number[] } {
  const plain: number[] = []
  const groups = new Map<string, Group>()
  for (const [index, { template, dedupe, gathers, input }] of asked.entries()) {
    if (results[index] !== undefined) continue
    const { jobId, definition } = template
    if (dedupe !== null && firsts.get(keyText(jobId, dedupe.key)) !== index) continue
    const rule = gathers ? gatherRule(definition) : null
    if (rule === null) {
      plain.push(index)
      continue
    }
    const key = gatherKey(input, rule.key)
    const group = groups.get(keyText(jobId, key)) ?? { jobId, key, rule, indexes: [] }
    group.indexes.push(index)
    groups.set(keyText(jobId, key), group)
  }
  return { groups: [...groups.values()], plain }
}

interface Shared extends Group {
  readonly steps: readonly GatherStep[]
  /** Of the run that was open. */
  readonly found: { readonly runId: string; readonly dueMs: number; readonly shard: number } | undefined
}
const nothing: readonly Shared[] = []

async function shareOut(
  { intake, nowMs }: EnqueueParts,
  asked: readonly AskedRun[],
  groups: readonly Group[],
): Promise<readonly Shared[]> {
  const open = await intake.lockGatherings(groups, nowMs)
  const byKey = new Map(open.map((each) => [keyText(each.jobId, each.key), each]))
  return groups.map((group) => {
    const found = byKey.get(keyText(group.jobId, group.key))
    const bytes = group.indexes.map((index) => inputBytes(wantedAt(asked, index).input))
    return { ...group, found, steps: gather(group.rule, found, bytes, nowMs) }
  })
}

export const inputBytes = (input: JsonValue | undefined): number => utf8Bytes(JSON.stringify(input ?? null))

function* lanesOf(
  { tenantId }: EnqueueParts,
  asked: readonly AskedRun[],
  plain: readonly number[],
  gatherings: readonly Shared[],
): Generator<string> {
  for (const index of plain) {
    const { template, queue } = wantedAt(asked, index)
    yield laneOfRun(template, tenantId, queue)
  }
  for (const { indexes } of gatherings) {
    for (const index of indexes) {
      const { template, queue } = wantedAt(asked, index)
      yield laneOfRun(template, tenantId, queue)
    }
  }
}

interface Moves {
  readonly inputs: { runId: string; position: number; input: JsonValue | undefined }[]
  readonly moved: { runId: string; dueMs: number }[]
  readonly noted: {
    jobId: string
    key: string
    runId: string
    items: number
    bytes: number
    openedMs: number
  }[]
  /** Where something is due earlier than the scheduler knows. */
  readonly shards: Set<number>
}

/** Makes the runs that gatherings begin, and says what is to be written of those that go on. */
function makeGathered(
  parts: EnqueueParts,
  asked: readonly AskedRun[],
  gatherings: readonly Shared[],
  made: NewRun[],
  results: (EnqueuedRun | undefined)[],
): Moves {
  const moves: Moves = { inputs: [], moved: [], noted: [], shards: new Set() }
  for (const shared of gatherings) {
    for (const step of shared.steps) {
      const run = step.runId === null ? runOfStep(parts, asked, shared, step) : null
      const runId = run?.id ?? step.runId ?? ''
      if (run !== null) made.push(run)
      const { kind } = shared.rule
      for (const { index, position } of step.taken) {
        const at = shared.indexes[index] ?? 0
        const first = run !== null && position === 1
        const gathered = { kind, position }
        results[at] = { runId, made: first ? run : null, duplicateOf: null, gathered, dueAtMs: step.dueMs }
      }
      if (run === null || run.gathers !== undefined) note(moves, asked, shared, step, runId)
    }
  }
  return moves
}

/** A run that is full from the start needs no gathering: its input is whole. */
function runOfStep(
  parts: EnqueueParts,
  asked: readonly AskedRun[],
  { rule, indexes }: Shared,
  { taken, isFull, dueMs }: GatherStep,
): NewRun {
  const requests = taken.map(({ index }) => wantedAt(asked, indexes[index] ?? 0))
  const [first] = requests
  if (first === undefined) throw new RangeError('A run was begun without a request.')
  if (isFull) {
    const input = requests.map((request) => request.input ?? null)
    return makeRun(parts, first.template, { ...first, input, runAtMs: null })
  }
  const run = makeRun(parts, first.template, { ...first, input: undefined, runAtMs: dueMs })
  return { ...run, gathers: rule.kind }
}

function note(
  moves: Moves,
  asked: readonly AskedRun[],
  { jobId, key, rule, indexes, found, steps }: Shared,
  step: GatherStep,
  runId: string,
): void {
  const inputAt = (index: number) => wantedAt(asked, indexes[index] ?? 0).input
  const newest = step.taken.at(-1)
  if (rule.kind === 'debounce') {
    if (newest !== undefined) moves.inputs.push({ runId, position: 0, input: inputAt(newest.index) })
  } else {
    for (const { index, position } of step.taken)
      moves.inputs.push({ runId, position, input: inputAt(index) })
  }
  if (found !== undefined && step.runId !== null && step.dueMs !== found.dueMs) {
    moves.moved.push({ runId, dueMs: step.dueMs })
    if (step.dueMs < found.dueMs) moves.shards.add(found.shard)
  }
  const isLast =
    steps.at(-1) === step || (step.isFull && steps.slice(steps.indexOf(step) + 1).every((s) => s.isFull))
  if (!isLast) return
  const { items, bytes, openedMs } = step
  moves.noted.push({ jobId, key, runId, items, bytes, openedMs })
}

async function writeGathered({ intake }: EnqueueParts, { inputs, moved, noted }: Moves): Promise<void> {
  if (inputs.length > 0) await intake.addInputs(inputs)
  if (moved.length > 0) await intake.moveDue(moved)
  if (noted.length > 0) await intake.noteGatherings(noted)
}
