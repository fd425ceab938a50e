/**
 * Why one run is where it is, as the contract describes it: what is on record of it is read as the tenant,
 * and where it stands in its queue outside of that transaction.
 */
import type { RouteName, RunExplanation } from '@belfry/contract'
import { isTerminal, maxShownAttempts } from '@belfry/contract'
import { heldRunWords } from '../domain/gate/hold-words.ts'
import type { WatchCall } from './endpoint.ts'
import { runExplanationView } from './run-insight-views.ts'

const shown = { before: null, limit: maxShownAttempts }

/** Undefined: there is no such run. */
export async function explainRunNow(
  { within, watcher }: Pick<WatchCall<RouteName>, 'within' | 'watcher'>,
  runId: string,
): Promise<RunExplanation | undefined> {
  const { run, held, gathering } = await within(async (tx) => {
    const run = await tx.runs.find(runId, shown)
    if (run?.state !== 'pending') return { run, held: undefined, gathering: undefined }
    const gathering = await tx.runs.gathering(runId)
    return { run, gathering, held: await tx.limits.gateOf(runId) }
  })
  if (run === undefined) return undefined
  const standing = isTerminal(run.state) ? undefined : await watcher.standing(runId)
  const now = { standing: standing ?? null, hold: held ? heldRunWords(held) : null }
  return runExplanationView(run, { ...now, gathering: gathering ?? null })
}
