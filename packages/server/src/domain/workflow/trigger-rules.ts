/**
 * The twelve trigger rules: what the states of the direct parents mean for a task. Pure, and a function of
 * how many parents are in which state alone, so neither their order nor the order in which they ended can
 * play a part.
 *
 * A canceled parent counts as a failed one, one that was not run as a skipped one. A failure that is allowed
 * counts as a success (`countParent` is told). A parent that ran for each item of a list counts item by item.
 */
import type { EndedTaskState, TaskState, TriggerRule } from '@belfry/contract'

/** How many direct parents stand where. `waiting`: not ended yet. */
export interface ParentCounts {
  waiting: number
  succeeded: number
  /** Failed or canceled. */
  failed: number
  upstreamFailed: number
  /** Skipped or not run. */
  skipped: number
}

export type RuleVerdict = 'wait' | 'run' | 'skip' | 'upstream_failed'

export function noParents(waiting: number): ParentCounts {
  return { waiting, succeeded: 0, failed: 0, upstreamFailed: 0, skipped: 0 }
}

type Ended = Omit<ParentCounts, 'waiting'>

/** What a parent that ended, or each of its items, adds to the counts of its children. */
export function tallyOf(states: readonly TaskState[], failureAllowed: boolean): Readonly<Ended> {
  const tally = { succeeded: 0, failed: 0, upstreamFailed: 0, skipped: 0 }
  for (const state of states) {
    if (state === 'succeeded' || (state === 'failed' && failureAllowed)) tally.succeeded += 1
    else if (state === 'failed' || state === 'canceled') tally.failed += 1
    else if (state === 'upstream_failed') tally.upstreamFailed += 1
    else tally.skipped += 1
  }
  return tally
}

/** Moves one parent from `waiting` to how it ended. */
export function countParent(counts: ParentCounts, state: EndedTaskState, failureAllowed: boolean): void {
  countEnded(counts, tallyOf([state], failureAllowed))
}

/** The same with what `tallyOf` made of it. */
export function countEnded(counts: ParentCounts, ended: Readonly<Ended>): void {
  counts.waiting -= 1
  counts.succeeded += ended.succeeded
  counts.failed += ended.failed
  counts.upstreamFailed += ended.upstreamFailed
  counts.skipped += ended.skipped
}

/** Rules that may hold before all parents have ended. */
const early: Partial<Record<TriggerRule, (counts: ParentCounts) => boolean>> = {
  always: () => true,
  one_failed: ({ failed, upstreamFailed }) => failed + upstreamFailed > 0,
  one_success: ({ succeeded }) => succeeded > 0,
  // it asks for a parent that did something: one that never started is not done
  one_done: ({ succeeded, failed }) => succeeded + failed > 0,
}

const unlessFailed = ({ failed, upstreamFailed }: Ended, otherwise: RuleVerdict): RuleVerdict =>
  failed + upstreamFailed > 0 ? 'upstream_failed' : otherwise

/** What a rule says once all parents have ended; there is at least one. */
const whole: Record<TriggerRule, (counts: Ended) => RuleVerdict> = {
  all_succeeded: (all) => unlessFailed(all, all.skipped > 0 ? 'skip' : 'run'),
  all_failed: ({ succeeded, skipped }) => (succeeded + skipped > 0 ? 'skip' : 'run'),
  all_done: () => 'run',
  all_done_min_one_success: ({ succeeded, skipped }) =>
    skipped > 0 ? 'skip' : succeeded > 0 ? 'run' : 'upstream_failed',
  all_skipped: ({ succeeded, failed, upstreamFailed }) =>
    succeeded + failed + upstreamFailed > 0 ? 'skip' : 'run',
  one_failed: () => 'skip',
  one_success: (all) => unlessFailed(all, 'skip'),
  one_done: () => 'skip',
  none_failed: (all) => unlessFailed(all, 'run'),
  none_failed_min_one_success: (all) => unlessFailed(all, all.succeeded > 0 ? 'run' : 'skip'),
  none_skipped: ({ skipped }) => (skipped > 0 ? 'skip' : 'run'),
  always: () => 'run',
}

/** Whether a task with these parents starts now, never will, or has to wait. Without parents it starts. */
export function judgeRule(rule: TriggerRule, counts: ParentCounts): RuleVerdict {
  if (early[rule]?.(counts) === true) return 'run'
  if (counts.waiting > 0) return 'wait'
  const ended = counts.succeeded + counts.failed + counts.upstreamFailed + counts.skipped
  return ended === 0 ? 'run' : whole[rule](counts)
}

/** Rules under which a task may start while parents are still at work. */
export function startsWithoutWaiting(rule: TriggerRule): boolean {
  return early[rule] !== undefined
}
