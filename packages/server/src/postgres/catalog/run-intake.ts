/**
 * The intake of runs on Postgres, over any connection that queries: the transaction of a request, or that of
 * an embedding program.
 */
import type { NewRun } from '../../ports/catalog.ts'
import type { AlikeRuns, DedupeKey, RunIntake } from '../../ports/run-intake.ts'
import { routeOf } from '../../domain/route.ts'
import { shardOf } from '../../domain/shard.ts'
import type { Transaction } from '../database.ts'
import * as dedupe from '../statements/dedupe.ts'
import * as dependencies from '../statements/dependencies.ts'
import * as gatherings from '../statements/gatherings.ts'
import type { AlikeRunColumns, RunBatchColumns } from '../statements/run-batch.ts'
import { insertAlikeRuns, insertRuns } from '../statements/run-batch.ts'
import { insertDelayedRun, insertReadyRun } from '../statements/runs.ts'
import { alikeColumns, runsAStatement } from './alike-runs.ts'
import { runColumns } from './run-catalog.ts'
import { isoOf, isoOrNull } from './values.ts'

/** Without `atEnd` the end of the transaction is the caller's. */
type Intake = Pick<Transaction, 'query'> & { readonly atEnd?: Transaction['atEnd'] | undefined }

export function createRunIntake({ query, atEnd }: Intake, tenantId: string): RunIntake {
  return {
    async lockKeys(keys, nowMs) {
      const columns = keyColumns(keys)
      await query(dedupe.lockDedupeKeys, columns)
      const held = await query(dedupe.findHeldKeys, [...columns, isoOf(nowMs)])
      return held.map((row) => ({ jobId: row.job_id, key: row.key, runId: row.run_id }))
    },
    async holdKeys(keys) {
      await query(dedupe.holdDedupeKeys, [
        keys.map(({ jobId }) => jobId),
        keys.map(({ key }) => key),
        keys.map(({ runId }) => runId),
        keys.map(({ heldUntilMs }) => isoOrNull(heldUntilMs)),
      ])
    },
    async lockGatherings(keys, nowMs) {
      const columns = keyColumns(keys)
      await query(gatherings.lockGatherings, [...columns, isoOf(nowMs)])
      const rows = await query(gatherings.findOpenGatherings, columns)
      return rows.map((row) => ({
        jobId: row.job_id,
        key: row.key,
        runId: row.run_id,
        kind: row.gathers === 'debounce' ? 'debounce' : 'collect',
        items: row.items,
        bytes: row.bytes,
        openedMs: row.opened_ms,
        dueMs: row.due_ms,
        shard: row.shard,
      }))
    },
    async addInputs(inputs) {
      await query(gatherings.addInputs, [
        inputs.map(({ runId }) => runId),
        inputs.map(({ position }) => position),
        inputs.map(({ input }) => jsonOrNull(input)),
      ])
    },
    async moveDue(runs) {
      await query(gatherings.moveGatherings, [runs.map(({ runId }) => runId), runs.map(({ dueMs }) => dueMs)])
    },
    async noteGatherings(noted) {
      await query(gatherings.noteGatherings, [
        noted.map(({ jobId }) => jobId),
        noted.map(({ key }) => key),
        noted.map(({ runId }) => runId),
        noted.map(({ items }) => items),
        noted.map(({ bytes }) => bytes),
        noted.map(({ openedMs }) => openedMs),
      ])
    },
    async knownRuns(ids) {
      return new Set((await query(dependencies.findKnownRuns, [ids])).map((row) => row.id))
    },
    async insert(all) {
      const waiting = all.filter(isWaiting)
      if (waiting.length > 0)
        await query(dependencies.insertWaitingRuns, [...waitingColumns(waiting, tenantId)])
      const runs = waiting.length === 0 ? all : all.filter((run) => !isWaiting(run))
      return insertPlaced({ query, atEnd }, runs, tenantId)
    },
  }
}

/** Those that depend on no other. */
async function insertPlaced(intake: Intake, runs: readonly NewRun[], tenantId: string): Promise<number[]> {
  const [first] = runs
  if (first === undefined) return []
  if (runs.length === 1 && first.gathers === undefined) return insertOne(intake, first, tenantId)
  if (!runs.every((run) => isAlike(run, first))) return insertAny(intake.query, runs, tenantId)
  await insertAlike(intake, alikeOf(runs, first), tenantId)
  return []
}

const keyColumns = (keys: readonly DedupeKey[]): [string[], string[]] => [
  keys.map(({ jobId }) => jobId),
  keys.map(({ key }) => key),
]

/**
 * One that no limit concerns goes out with the COMMIT: nothing more is asked about it
 * (http/take-runs.ts).
 */
async function insertOne({ query, atEnd }: Intake, run: NewRun, tenantId: string): Promise<number[]> {
  const { start, template } = run
  const columns = runColumns(run, tenantId)
  const leaves = atEnd !== undefined && !template.limited
  if (start.kind !== 'ready') {
    if (leaves) atEnd(insertDelayedRun, columns)
    else await query(insertDelayedRun, columns)
    return [shardOf(run.id)]
  }
  const placed = [...columns, start.tag] as const
  if (leaves) atEnd(insertReadyRun, placed)
  else await query(insertReadyRun, placed)
  return []
}

/** Answers the shards in which some wait for their time. */
async function insertAny(
  query: Intake['query'],
  runs: readonly NewRun[],
  tenantId: string,
): Promise<number[]> {
  const shards = new Set<number>()
  let under: Promise<{ shard: number }[]> = Promise.resolve([])
  for (let from = 0; from < runs.length; from += runsAStatement) {
    // made ready while the database is busy with those before
    const columns = batchColumns(runs.slice(from, from + runsAStatement), tenantId)
    for (const { shard } of await under) shards.add(shard)
    under = query(insertRuns, columns)
  }
  for (const { shard } of await under) shards.add(shard)
  return [...shards]
}

/** Whether two runs that may start at once differ in nothing but id, input and tag. */
function isAlike(run: NewRun, first: NewRun): boolean {
  return (
    run.start.kind === 'ready' &&
    first.start.kind === 'ready' &&
    run.template === first.template &&
    run.queue === first.queue &&
    run.priority === first.priority &&
    run.source === first.source &&
    run.dueAtMs === first.dueAtMs &&
    run.startByMs === first.startByMs &&
    run.runDeadlineMs === first.runDeadlineMs &&
    (run.input === undefined) === (first.input === undefined) &&
    run.scheduleId === null &&
    run.scheduledForMs === null &&
    run.gathers === undefined
  )
}

function alikeOf(runs: readonly NewRun[], first: NewRun): AlikeRuns {
  const { template, source, queue, priority, dueAtMs, startByMs, runDeadlineMs } = first
  return {
    template,
    source,
    queue,
    priority,
    dueAtMs,
    startWithinMs: startByMs === null ? null : startByMs - dueAtMs,
    runDeadlineMs: runDeadlineMs === null ? null : runDeadlineMs - dueAtMs,
    ids: runs.map(({ id }) => id),
    tags: runs.map(tagOf),
    inputs: first.input === undefined ? null : runs.map(({ input }) => input ?? null),
  }
}

const tagOf = ({ start }: NewRun): number => (start.kind === 'ready' ? start.tag : Number.NaN)

/** The last part goes out with the COMMIT, as one run does. */
async function insertAlike({ query, atEnd }: Intake, runs: AlikeRuns, tenantId: string): Promise<void> {
  let last: AlikeRunColumns | undefined
  for (const columns of alikeColumns(runs, tenantId, false)) {
    if (last !== undefined) await query(insertAlikeRuns, last)
    last = columns
  }
  if (last === undefined) return
  if (atEnd !== undefined && !runs.template.limited) atEnd(insertAlikeRuns, last)
  else await query(insertAlikeRuns, last)
}

type WaitingRun = NewRun & { readonly start: { readonly kind: 'waiting' } }

const isWaiting = (run: NewRun): run is WaitingRun => run.start.kind === 'waiting'

/** Runs that depend on others, and with each of those a row. */
function waitingColumns(runs: readonly WaitingRun[], tenantId: string) {
  const of = <T>(value: (run: WaitingRun) => T): T[] => runs.map(value)
  const links = runs.flatMap(({ id, start: { runIds, rule } }) =>
    runIds.map((runId) => ({ id, runId, rule })),
  )
  return [
    of(({ id }) => id),
    of(({ template }) => template.jobId),
    of(({ template }) => template.jobVersion),
    of(({ queue }) => queue),
    of(({ template }) => routeOf(template.definition.handler, tenantId)),
    of(({ priority }) => priority),
    of(({ template }) => template.definition.attemptTimeoutMs),
    of(({ input }) => jsonOrNull(input)),
    of(({ dueAtMs }) => isoOf(dueAtMs)),
    of(({ startByMs }) => isoOrNull(startByMs)),
    of(({ runDeadlineMs }) => isoOrNull(runDeadlineMs)),
    of(({ start }) => start.rule),
    links.map(({ id }) => id),
    links.map(({ runId }) => runId),
    links.map(({ rule }) => rule),
  ] as const
}

const jsonOrNull = (input: NewRun['input']): string | null =>
  input === undefined ? null : JSON.stringify(input)

/** Runs that share what a kind says, by number: the first kind is 1. */
function kindsOf(runs: readonly NewRun[]): { kinds: readonly NewRun[]; numbers: readonly number[] } {
  const kinds: NewRun[] = []
  const byTemplate = new Map<NewRun['template'], Map<string, number>>()
  const numbers = runs.map((run) => {
    const known = byTemplate.get(run.template) ?? new Map<string, number>()
    byTemplate.set(run.template, known)
    const rest = `${run.queue} ${run.source} ${run.scheduleId ?? ''} ${run.gathers ?? ''}`
    const number = known.get(rest) ?? kinds.push(run)
    known.set(rest, number)
    return number
  })
  return { kinds, numbers }
}

function batchColumns(runs: readonly NewRun[], tenantId: string): RunBatchColumns {
  const { kinds, numbers } = kindsOf(runs)
  return [
    kinds.map(({ template }) => template.jobId),
    kinds.map(({ template }) => template.jobVersion),
    kinds.map(({ queue }) => queue),
    kinds.map(({ template }) => routeOf(template.definition.handler, tenantId)),
    kinds.map(({ template }) => template.definition.attemptTimeoutMs),
    kinds.map(({ gathers }) => gathers ?? null),
    kinds.map(({ scheduleId }) => scheduleId),
    kinds.map(({ source }) => source),
    arrayOf(runs, ({ id }) => id),
    `{${numbers.join()}}`,
    arrayOf(runs, ({ priority }) => priority),
    arrayOf(runs, ({ input }) => quotedJson(input)),
    arrayOf(runs, ({ dueAtMs }) => dueAtMs),
    arrayOf(runs, ({ scheduledForMs }) => scheduledForMs),
    arrayOf(runs, ({ startByMs }) => startByMs),
    arrayOf(runs, ({ runDeadlineMs }) => runDeadlineMs),
    arrayOf(runs, ({ start }) => (start.kind === 'ready' ? start.tag : null)),
  ]
}

/** An SQL array of what needs no quotes, as text: the driver takes several times as long for it. */
const arrayOf = (runs: readonly NewRun[], valueOf: (run: NewRun) => string | number | null): string =>
  `{${runs.map((run) => valueOf(run) ?? 'NULL').join()}}`

/** JSON as an element of an SQL array. */
function quotedJson(input: NewRun['input']): string | null {
  if (input === undefined) return null
  return `"${JSON.stringify(input).replace(/["\\]/g, '\\$&')}"`
}
