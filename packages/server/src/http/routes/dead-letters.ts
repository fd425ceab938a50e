/**
 * Endpoints of dead letters: listed, grouped, looked at, replayed and deleted, one or those that a filter
 * means. Ids are those of the runs that failed.
 */
import { isDeepStrictEqual } from 'node:util'
import type { DeadLetter, DeadLetterSelection, DeadLetterState } from '@belfry/contract'
import { BelfryError, bulkSampleSize } from '@belfry/contract'
import type { Replays } from '../../engine/catalog/letter-replayer.ts'
import { replayLetters } from '../../engine/catalog/letter-replayer.ts'
import { readPosition, writePosition } from '../../domain/letter-position.ts'
import type { CatalogTx } from '../../ports/catalog.ts'
import type {
  DeadLetterFilter,
  DeadLetterRecord,
  FoundLetters,
  HeldLetter,
} from '../../ports/dead-letters.ts'
import { readStep, refuseMore } from '../bulk.ts'
import { makeCursor, readCursor } from '../cursor.ts'
import { deadLetterView, groupsView, largestGroups, sampleOf, selectionView } from '../dead-letter-views.ts'
import type { Effect, Endpoints, Tools } from '../endpoint.ts'
import { noSuch } from '../missing.ts'
import { cut } from '../page.ts'
import { storedRun } from '../stored-run.ts'
import { runView } from '../views.ts'
import { wantedJob } from '../wanted-job.ts'

type LetterEndpoints = Pick<
  Endpoints,
  | 'deadLetterList'
  | 'deadLetterGroups'
  | 'deadLetterGet'
  | 'deadLetterReplay'
  | 'deadLetterReplayMany'
  | 'deadLetterDelete'
  | 'deadLetterDeleteMany'
>

const noLetters = { tallies: [], total: 0, looked: 0, isWhole: true }

export const deadLetterEndpoints: LetterEndpoints = {
  deadLetterList: {
    as: 'tenant',
    async answer({ tx, tools, query, credential }) {
      const { limit, cursor, state, ...told } = query
      const scope = { list: 'dead-letters', tenantId: credential.tenantId, filter: { state, ...told } }
      const before = readCursor(scope, cursor, readPosition)
      const filter = await filterOf(tx, told, state)
      const none: FoundLetters = { items: [], lookedTo: null }
      const found = filter === null ? none : await tx.deadLetters.list({ before, limit: limit + 1 }, filter)
      const isFull = found.items.length > limit
      const lookedTo = isFull || found.lookedTo === null ? null : writePosition(found.lookedTo)
      const view = (letter: DeadLetterRecord): DeadLetter => deadLetterView(letter, tools.retentionDays)
      return { body: cut(scope, limit, { items: found.items, lookedTo }, writePosition, view) }
    },
  },
  deadLetterGroups: {
    as: 'tenant',
    async answer({ tx, query }) {
      const { limit, state, ...told } = query
      const filter = await filterOf(tx, told, state)
      const all = filter === null ? noLetters : await tx.deadLetters.tally(filter)
      const groups = largestGroups(all, limit)
      const messages = await tx.deadLetters.messages(groups.map(sampleOf))
      return { body: groupsView(all, groups, messages) }
    },
  },
  deadLetterGet: {
    as: 'tenant',
    async answer({ tx, tools, params }) {
      const letter = await stored(tx, params.id)
      const run = runView(await storedRun(tx, params.id))
      return { body: { ...deadLetterView(letter, tools.retentionDays), run } }
    },
  },
  deadLetterReplay: {
    as: 'tenant',
    async answer({ tx, tools, params, body, credential, after }) {
      const parts = { tx, ids: tools.ids, tags: tools.tags, tenantId: credential.tenantId }
      const replays = await replayLetters(parts, [params.id], body.input)
      makeKnown(replays, after)
      const run = await runOfReplay(tx, params.id, body.input, replays)
      const letter = await stored(tx, params.id)
      const deadLetter = deadLetterView(letter, tools.retentionDays)
      const answered = { deadLetter, run: runView(run), created: replays.made.length > 0 }
      return { body: answered, audited: { subjectName: letter.jobName } }
    },
  },
  deadLetterReplayMany: {
    as: 'tenant',
    async answer({ tx, tools, query, body, credential, after }) {
      const scope = { list: 'dead-letters.replay', tenantId: credential.tenantId, filter: body.filter }
      const before = readStep(scope, body, readPosition)
      const { state, ...told } = body.filter
      const filter = await filterOf(tx, told, [state ?? 'open'])
      const nothing = { replayed: 0, refused: [], nextCursor: null, preview: null }
      if (query.dryRun) return { body: { ...nothing, preview: await previewOf(tx, tools, body, filter) } }
      if (filter === null) return { body: nothing }
      await refuseMore(body, () => tx.deadLetters.tally(filter))
      const { items, lookedTo } = await tx.deadLetters.list({ before, limit: body.limit }, filter)
      const parts = { tx, ids: tools.ids, tags: tools.tags, tenantId: credential.tenantId }
      const replays = await replayLetters(
        parts,
        items.map(({ runId }) => runId),
        body.input,
      )
      makeKnown(replays, after)
      const names = new Map(items.map(({ runId, jobName }) => [runId, jobName]))
      const refused = [
        ...replays.orphaned.map(({ runId }) => ({ runId, message: jobDeleted(names.get(runId) ?? '') })),
        ...replays.ofTasks.map((letter) => ({ runId: letter.runId, message: ofTask(letter) })),
      ]
      const nextCursor = lookedTo === null ? null : makeCursor(scope, writePosition(lookedTo))
      return { body: { replayed: replays.made.length, refused, nextCursor, preview: null } }
    },
  },
  deadLetterDelete: {
    as: 'tenant',
    async answer({ tx, tools, params }) {
      await tx.deadLetters.hold([params.id])
      await tx.deadLetters.markDeleted([params.id])
      return { body: deadLetterView(await stored(tx, params.id), tools.retentionDays) }
    },
  },
  deadLetterDeleteMany: {
    as: 'tenant',
    async answer({ tx, tools, query, body, credential }) {
      const scope = { list: 'dead-letters.delete', tenantId: credential.tenantId, filter: body.filter }
      const before = readStep(scope, body, readPosition)
      const { state, ...told } = body.filter
      const filter = await filterOf(tx, told, [state ?? 'open'])
      const nothing = { deleted: 0, nextCursor: null, preview: null }
      if (query.dryRun) return { body: { ...nothing, preview: await previewOf(tx, tools, body, filter) } }
      if (filter === null) return { body: nothing }
      await refuseMore(body, () => tx.deadLetters.tally(filter))
      const { items, lookedTo } = await tx.deadLetters.list({ before, limit: body.limit }, filter)
      const held = await tx.deadLetters.hold(items.map(({ runId }) => runId))
      // one that was replayed meanwhile is no longer what was asked for
      const wanted = held.filter((letter) => filter.states.includes(letter.state))
      const deleted = await tx.deadLetters.markDeleted(wanted.map(({ runId }) => runId))
      const nextCursor = lookedTo === null ? null : makeCursor(scope, writePosition(lookedTo))
      return { body: { deleted, nextCursor, preview: null } }
    },
  },
}

/** Throws `not_found`. */
async function stored(tx: CatalogTx, runId: string): Promise<DeadLetterRecord> {
  const letter = await tx.deadLetters.find(runId)
  if (letter === undefined) throw noSuch('dead letter', runId)
  return letter
}

interface Told {
  readonly job?: string | undefined
  readonly jobId?: string | undefined
  readonly fingerprint?: string | undefined
  readonly queue?: string | undefined
  readonly errorCode?: string | undefined
  readonly failedAfter?: string | undefined
  readonly failedBefore?: string | undefined
}

/** Null where it names a job that is not here. */
async function filterOf(
  tx: CatalogTx,
  told: Told,
  states: readonly DeadLetterState[],
): Promise<DeadLetterFilter | null> {
  const jobId = await wantedJob(tx, told.job, told.jobId)
  if (jobId === null) return null
  const { fingerprint, queue, errorCode, failedAfter, failedBefore } = told
  return {
    states,
    jobId,
    fingerprint,
    queue,
    errorCode,
    failedAfterMs: failedAfter === undefined ? null : Date.parse(failedAfter),
    failedBeforeMs: failedBefore === undefined ? null : Date.parse(failedBefore),
  }
}

async function previewOf(
  tx: CatalogTx,
  { retentionDays }: Tools,
  body: { readonly cursor?: string | undefined; readonly expectedCount?: number | undefined },
  filter: DeadLetterFilter | null,
): Promise<DeadLetterSelection> {
  if (filter === null) return selectionView(noLetters, [])
  const tallies = await tx.deadLetters.tally(filter)
  await refuseMore(body, async () => tallies)
  const { items } = await tx.deadLetters.list({ before: null, limit: bulkSampleSize }, filter)
  return selectionView(
    tallies,
    items.map((letter) => deadLetterView(letter, retentionDays)),
  )
}

function makeKnown({ made }: Replays, after: (effect: Effect) => void): void {
  const queues = new Set(made.map(({ run }) => run.queue))
  for (const queue of queues) after({ kind: 'hint', hint: { topic: 'ready', key: queue } })
  for (const { run } of made) after({ kind: 'enqueued', count: 1, queue: run.queue, source: 'replay' })
}

const jobDeleted = (job: string): string =>
  `The job ${job} was deleted: make one of this name and run it with this input, or delete the dead letter.`

const ofTask = ({ workflowRunId }: HeldLetter): string =>
  `It is of a task of the workflow run ${workflowRunId ?? ''}; a run by itself would end outside of it: ` +
  `rerun the workflow run instead (belfry workflow-run rerun ${workflowRunId ?? ''}).`

/**
 * The run that a dead letter was replayed as, now or before. Throws `not_found` without a dead letter,
 * `invalid_state` where it cannot be replayed, or was with another input than is asked for now.
 */
async function runOfReplay(tx: CatalogTx, runId: string, input: unknown, replays: Replays) {
  const [made] = replays.made
  if (made !== undefined) return storedRun(tx, made.run.id)
  const letter = await stored(tx, runId)
  const [taken] = replays.ofTasks
  if (taken !== undefined) throw new BelfryError('invalid_state', ofTask(taken))
  if (replays.orphaned.length > 0) throw new BelfryError('invalid_state', jobDeleted(letter.jobName))
  if (letter.replayedAs === null) {
    const fix = `run the job with its input instead (${letter.jobName})`
    throw new BelfryError('invalid_state', `The dead letter ${runId} was deleted; ${fix}.`)
  }
  const run = await storedRun(tx, letter.replayedAs)
  if (input !== undefined && !isDeepStrictEqual(run.input, input)) {
    const message = `was replayed before as ${run.id}, with another input`
    throw new BelfryError('invalid_state', `The dead letter ${runId} ${message}; run the job instead.`, {
      errors: [{ pointer: '/input', message: `differs from that of ${run.id}` }],
    })
  }
  return run
}
