/**
 * Turns of workflow runs: which begins next when one has ended. Within the transaction of a resolver's round
 * (engine/workflow-turns.ts).
 */
import type { InputSchema, JsonValue } from '@belfry/contract'

export interface TriggeredRun {
  readonly workflowId: string
  /** The workflow run whose end triggers it. */
  readonly endedId: string
  /** What it is begun with, where its workflow says what it takes. */
  readonly asked: { readonly schema: InputSchema; readonly input: JsonValue } | null
}

export interface BegunByEnd extends Omit<TriggeredRun, 'asked'> {
  readonly id: string
  /** Undefined: as the trigger says. */
  readonly input: JsonValue | undefined
  /** Why it is not taken: the run ends at once, and says so. */
  readonly refusal: string | null
}

export interface TurnsTx {
  /** Of these, which the round holds, those that nothing of their schedule is before any more. */
  readonly free: (workflowRunIds: readonly string[]) => Promise<ReadonlySet<string>>
  /** Tells the next that waits of each of these schedules; true where there is one. */
  readonly give: (scheduleIds: readonly string[]) => Promise<boolean>
  /** What the ends of these bring about. */
  readonly aftermath: (endedIds: readonly string[]) => Promise<{
    readonly triggered: readonly TriggeredRun[]
    /** Schedules of backfills that made some of them. */
    readonly backfilled: readonly string[]
  }>
  readonly begin: (runs: readonly BegunByEnd[]) => Promise<void>
}
