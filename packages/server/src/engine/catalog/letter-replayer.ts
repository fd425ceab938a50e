/**
 * Replays dead letters: of each a new run of the same job, as the job is now, with the input and the planned
 * time of the run that failed; its queue and priority only where they were not those of the job.
 *
 *   hold the dead letters ─► those that are open: make runs ─► mark them as replayed, by those runs
 *
 * One transaction, so that of two who replay the same one the second waits, and finds it replayed.
 */
import type { JsonValue } from '@belfry/contract'
import type { CatalogTx, NewRun, RunTemplate } from '../../ports/catalog.ts'
import type { HeldLetter } from '../../ports/dead-letters.ts'
import type { Ids } from '../../ports/ids.ts'
import type { FairTags } from '../fair-tags.ts'
import { laneOfRun, makeRun } from './run-maker.ts'

export interface ReplayParts {
  readonly tx: CatalogTx
  readonly ids: Ids
  readonly tags: Pick<FairTags, 'next' | 'ready'>
  readonly tenantId: string
}

export interface Replay {
  readonly letter: HeldLetter
  readonly run: NewRun
}

export interface Replays {
  readonly made: readonly Replay[]
  /** Not open any more when they were held. */
  readonly settled: readonly HeldLetter[]
  /** Jobs of these are deleted. */
  readonly orphaned: readonly HeldLetter[]
  /** Runs of these were tasks of workflow runs, which are rerun instead. */
  readonly ofTasks: readonly HeldLetter[]
}

/** `input`: instead of that of the runs; undefined: theirs. */
export async function replayLetters(
  parts: ReplayParts,
  runIds: readonly string[],
  input: JsonValue | undefined,
): Promise<Replays> {
  const { tx, ids, tags, tenantId } = parts
  const held = await tx.deadLetters.hold(runIds)
  const templates = await templatesOf(tx, held)
  const open = held.filter(({ state, workflowRunId }) => state === 'open' && workflowRunId === null)
  const wanted = open.flatMap((letter) => {
    const template = templates.get(letter.jobId)
    return template === undefined ? [] : [{ letter, template }]
  })
  const lanes = wanted.map(({ letter, template }) => laneOfRun(template, tenantId, letter.queue))
  await tags.ready([...new Set(lanes)])
  const nowMs = await tx.nowMs()
  const made: Replay[] = []
  for (const { letter, template } of wanted) {
    const { scheduleId, scheduledForMs, queue, priority } = letter
    const run = makeRun({ ids, tags, tenantId, nowMs }, template, {
      source: 'replay',
      scheduleId,
      scheduledForMs,
      input: input === undefined ? letter.input : input,
      runAtMs: null,
      queue,
      priority,
    })
    await tx.runs.insert(run)
    if (scheduleId !== null && scheduledForMs !== null)
      await tx.backfills.insertExtraRun({ scheduleId, scheduledForMs, runId: run.id })
    made.push({ letter, run })
  }
  await tx.deadLetters.markReplayed(
    made.map(({ letter, run }) => ({ runId: letter.runId, replayId: run.id })),
  )
  return {
    made,
    settled: held.filter(({ state }) => state !== 'open'),
    orphaned: open.filter(({ jobId }) => !templates.has(jobId)),
    ofTasks: held.filter(({ state, workflowRunId }) => state === 'open' && workflowRunId !== null),
  }
}

/** By job, without those that were deleted. */
async function templatesOf(
  tx: CatalogTx,
  letters: readonly HeldLetter[],
): Promise<ReadonlyMap<string, RunTemplate>> {
  const templates = new Map<string, RunTemplate>()
  const jobIds = new Set(letters.filter(({ state }) => state === 'open').map(({ jobId }) => jobId))
  for (const jobId of jobIds) {
    const template = await tx.runs.templateByJobId(jobId)
    if (template !== undefined) templates.set(jobId, template)
  }
  return templates
}
