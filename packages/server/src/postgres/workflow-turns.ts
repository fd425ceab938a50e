/**
 * Turns of workflow runs on Postgres: the columns and rows of statements/workflow-turns.ts, which says what
 * makes them safe.
 */
import type { JsonValue } from '@belfry/contract'
import { mostChained } from '../domain/workflow/trigger-circles.ts'
import { refusalNote } from '../engine/catalog/workflow-input.ts'
import type { TurnsTx } from '../ports/workflow-turns.ts'
import type { Transaction } from './database.ts'
import * as statements from './statements/workflow-turns.ts'

export function turnsTx(tx: Transaction): TurnsTx {
  return {
    async free(ids) {
      return new Set((await tx.query(statements.freeWaitingWorkflowRuns, [ids])).map((row) => row.id))
    },
    async give(scheduleIds) {
      await tx.query(statements.holdTurns, [scheduleIds])
      return (await tx.query(statements.giveTurns, [scheduleIds])).length > 0
    },
    async aftermath(ids) {
      const sorted = ids.toSorted()
      const [first = ''] = sorted
      const rows = await tx.query(statements.listAftermath, [
        sorted,
        first,
        sorted.at(-1) ?? first,
        mostChained,
      ])
      return {
        triggered: rows.flatMap(
          ({ workflow_id: workflowId, ended_id: endedId, input_schema: schema, input }) =>
            workflowId === null
              ? []
              : [
                  {
                    workflowId,
                    endedId,
                    asked: schema === null ? null : { schema, input: input as JsonValue },
                  },
                ],
        ),
        backfilled: [...new Set(rows.flatMap((row) => row.schedule_id ?? []))],
      }
    },
    async begin(runs) {
      await tx.query(statements.beginTriggeredRuns, [
        runs.map(({ id }) => id),
        runs.map(({ workflowId }) => workflowId),
        runs.map(({ endedId }) => endedId),
        runs.map(({ input }) => (input === undefined ? null : JSON.stringify(input))),
        runs.map(({ refusal }) => JSON.stringify(refusal === null ? {} : { [refusalNote]: refusal })),
      ])
    },
  }
}
