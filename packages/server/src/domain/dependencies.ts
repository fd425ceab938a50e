/**
 * Runs that depend on other runs: whether one may start, by how all of the others ended. Pure, and by the
 * same rules as those of tasks (workflow/trigger-rules.ts), so the order in which they ended plays no part.
 * One whose record is gone counts as failed: nobody can say that it did not.
 */
import type { Dependency, RunReason, TerminalRunState, TriggerRule } from '@belfry/contract'
import { countParent, judgeRule, noParents } from './workflow/trigger-rules.ts'

/** How a run ended on which another depends; null: it has not. */
export type DependencyState = Dependency['state']

/** How many of the runs that one depends on are in which state. */
export type DependencyCounts = ReadonlyMap<DependencyState, number>

export type DependencyVerdict =
  | { readonly kind: 'wait' }
  | { readonly kind: 'run' }
  | {
      readonly kind: 'end'
      readonly state: Extract<TerminalRunState, 'skipped' | 'upstream_failed'>
      readonly reason: Extract<RunReason, 'dependency_failed' | 'dependency_skipped'>
      readonly message: string
    }

export function judgeDependencies(rule: TriggerRule, states: DependencyCounts): DependencyVerdict {
  const total = [...states.values()].reduce((sum, count) => sum + count, 0)
  const counts = noParents(total)
  for (const [state, count] of states) {
    if (state === null) continue
    for (let each = 0; each < count; each++)
      countParent(counts, state === 'unknown' ? 'failed' : state, false)
  }
  const verdict = judgeRule(rule, counts)
  if (verdict === 'wait' || verdict === 'run') return { kind: verdict }
  const failed = verdict === 'upstream_failed'
  return {
    kind: 'end',
    state: failed ? 'upstream_failed' : 'skipped',
    reason: failed ? 'dependency_failed' : 'dependency_skipped',
    message: `Of the runs that it depends on ${countWords(states)}; the rule ${rule} does not hold.`,
  }
}

/** "2 failed, 1 succeeded" */
export function countWords(states: DependencyCounts): string {
  const words = [...states].map(([state, count]) => {
    if (state === null) return `${count} ${count === 1 ? 'has' : 'have'} not ended`
    return `${count} ${state === 'unknown' ? 'ended unknown' : state.replace('_', ' ')}`
  })
  return words.sort().join(', ')
}

/** Whether a run of this id is so old that its record is dropped; ids carry the time of their making. */
export function isPastRetention(runId: string, nowMs: number, retentionDays: number): boolean {
  if (runId[14] !== '7') return false
  const madeAtMs = Number.parseInt(runId.slice(0, 8) + runId.slice(9, 13), 16)
  const dayMs = 86_400_000
  return madeAtMs < (Math.floor(nowMs / dayMs) - retentionDays) * dayMs
}
