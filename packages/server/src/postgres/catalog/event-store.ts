/**
 * Events that begin workflows, of one tenant: what came in with which key, and which workflows name it
 * (statements/workflow-events.ts).
 */
import type { JsonValue } from '@belfry/contract'
import type { EventStore, StoredEvent } from '../../ports/workflows.ts'
import type { Transaction } from '../database.ts'
import * as statements from '../statements/workflow-events.ts'

export function createEventStore(tx: Transaction): EventStore {
  return {
    insert: async ({ id, name, key }) => (await tx.query(statements.insertEvent, [id, name, key])).length > 0,
    async find(name, key) {
      const [row] = await tx.query(statements.findEvent, [name, key])
      if (row === undefined) return undefined
      const runs = row.runs.map(([workflowRunId, workflow]) => ({ workflow, workflowRunId }))
      return { id: row.id, runs, refused: row.refused as StoredEvent['refused'] }
    },
    async note(id, workflowRunIds, refused) {
      await tx.query(statements.noteEventRuns, [id, workflowRunIds, JSON.stringify(refused)])
    },
    async freeKey(id) {
      await tx.query(statements.freeEventKey, [id])
    },
    async triggered(name) {
      const rows = await tx.query(statements.listTriggeredByEvent, [name])
      return rows.map((row) => ({
        workflowId: row.workflow_id,
        input: row.has_input ? (row.input as JsonValue) : undefined,
      }))
    },
  }
}
