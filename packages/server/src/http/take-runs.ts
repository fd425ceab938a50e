/**
 * The steps that all routes share which ask for runs: requests are taken in, what was made is made known
 * after the commit, and the answer says which run it is.
 */
import type { RunCreated } from '@belfry/contract'
import type { AskedRun, Enqueued, EnqueuedRun } from '../engine/catalog/enqueuer.ts'
import { enqueueRuns } from '../engine/catalog/enqueuer.ts'
import { newRunRecord } from '../engine/catalog/new-run-record.ts'
import type { CatalogTx } from '../ports/catalog.ts'
import type { Credential } from '../ports/credentials.ts'
import type { Effect, Tools } from './endpoint.ts'
import { storedRun } from './stored-run.ts'
import { runView } from './views.ts'

interface Taking {
  readonly tx: CatalogTx
  readonly tools: Tools
  readonly credential: Credential
  readonly after: (effect: Effect) => void
}

export async function takeRuns(
  { tx, tools, credential, after }: Taking,
  asked: readonly AskedRun[],
  nowMs: number,
): Promise<Enqueued> {
  const parts = { intake: tx.intake, ids: tools.ids, tags: tools.tags, tenantId: credential.tenantId, nowMs }
  const taken = await enqueueRuns(parts, asked)
  for (const hint of taken.hints) after({ kind: 'hint', hint })
  for (const [queue, made] of Map.groupBy(taken.made, (run) => run.queue))
    for (const [source, { length: count }] of Map.groupBy(made, (run) => run.source))
      after({ kind: 'enqueued', count, queue, source })
  return taken
}

/** One request; the answer shows its run as it stands. */
export async function takeRun(call: Taking, asked: AskedRun, nowMs: number) {
  const { results } = await takeRuns(call, [asked], nowMs)
  const [result] = results
  if (result === undefined) throw new RangeError('A request has no result.')
  const { made } = result
  const isPlain = made !== null && made.gathers === undefined && !made.template.limited
  const record = isPlain ? newRunRecord(made, nowMs) : await storedRun(call.tx, result.runId)
  const body: RunCreated = { ...runView(record), ...outcomeOf(result) }
  return { body, location: `/v1/runs/${result.runId}`, joined: result.made === null }
}

export function outcomeOf({ duplicateOf, gathered }: EnqueuedRun) {
  return { duplicate: duplicateOf !== null, duplicateOf, gathered }
}
