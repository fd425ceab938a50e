/**
 * How what came of an event looks to people: what it was, and a line for each workflow run that it began or
 * workflow that refused it.
 */
import type { EventReceipt } from '@belfry/contract'
import type { Shape } from './printer.ts'

export const eventReceiptShape: Shape<EventReceipt> = {
  name: (receipt) => receipt.id,
  columns: [],
  fields: (receipt) => [
    ['Event', receipt.event],
    ['Id', receipt.id],
    ['Key', receipt.key ?? '-'],
    ['Came before', receipt.duplicate ? 'yes' : 'no'],
    ...receipt.runs.map(
      ({ workflow, workflowRunId }) => ['Began', `${workflowRunId} of ${workflow}`] as const,
    ),
    ...receipt.refused.map(({ workflow }) => ['Refused by', workflow] as const),
  ],
}
