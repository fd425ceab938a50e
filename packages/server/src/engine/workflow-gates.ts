/**
 * Limits of how many runs of a workflow there are at once. Runs behind a gate begin once they are admitted:
 *
 *   hold the gates of all runs of the round, in order ─► admit as many as there is room for ─► the round ─►
 *   places that runs of the round left are given on
 *
 * What finds no room waits, ends, or has those before it canceled, as its workflow says. Whoever is admitted
 * outside of the round is told to begin by an event.
 */
import type { LockedWorkflowRun } from '../ports/workflow-runs.ts'
import type { WaitingTx } from '../ports/workflow-waits.ts'
import type { CompiledWorkflow } from './workflow-plans.ts'

/** `begin`: admitted in this round. */
export type GatePlace = 'open' | 'begin' | 'waits' | 'skip'

export interface Gates {
  readonly placeOf: (run: LockedWorkflowRun, compiled: CompiledWorkflow) => GatePlace
  /** True where others were admitted in the places of these, which are over. */
  readonly handOn: (over: readonly LockedWorkflowRun[]) => Promise<boolean>
  /** Those that wait have others canceled, where their workflow says so. */
  readonly replace: (waiting: readonly (readonly [LockedWorkflowRun, CompiledWorkflow])[]) => Promise<boolean>
}

/** `outOfTurn`: those that wait for a run of their schedule; one that ends lets others at its gate look. */
export async function holdGates(
  tx: WaitingTx,
  runs: readonly LockedWorkflowRun[],
  outOfTurn: ReadonlySet<string>,
): Promise<Gates> {
  const gated = runs.filter(({ gate }) => gate !== null)
  if (gated.length === 0) {
    return {
      placeOf: ({ id }) => (outOfTurn.has(id) ? 'waits' : 'open'),
      handOn: () => Promise.resolve(false),
      replace: () => Promise.resolve(false),
    }
  }
  const gatesOf = (some: readonly LockedWorkflowRun[]): string[] => [
    ...new Set(some.flatMap(({ gate }) => gate ?? [])),
  ]
  await tx.holdGates(gatesOf(gated))
  const queued = gatesOf(gated.filter(({ id, admitted }) => !admitted && !outOfTurn.has(id)))
  const ids = gated.map(({ id }) => id)
  const admitted = queued.length > 0 ? await tx.admit(queued, ids) : new Set<string>()
  return {
    placeOf({ id, gate, admitted: already, states }, { onLimit }) {
      if (outOfTurn.has(id)) return 'waits'
      if (gate === null || already) return 'open'
      if (admitted.has(id)) return 'begin'
      // one that has begun before, and begins again by hand, waits for its turn
      const isNew = states.every((state) => state === 0)
      return onLimit === 'skip' && isNew ? 'skip' : 'waits'
    },
    async handOn(over) {
      const freed = gatesOf(over)
      return freed.length > 0 && (await tx.admit(freed, [])).size > 0
    },
    async replace(waiting) {
      const replacing = waiting.filter(([{ id }, { onLimit }]) => onLimit === 'replace' && !outOfTurn.has(id))
      for (const [{ id, gate }] of replacing) if (gate !== null) await tx.replace(gate, id)
      return replacing.length > 0
    },
  }
}
