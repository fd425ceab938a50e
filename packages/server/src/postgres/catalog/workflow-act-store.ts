/**
 * Acts by hand on workflow runs of one tenant. A workflow run is held by the lock of its progress, or by its
 * key where it has ended and the progress is made anew (statements/workflow-acts.ts).
 */
import { BelfryError, type JsonValue, type WorkflowRunAct } from '@belfry/contract'
import type { TaskRole } from '../../domain/workflow/plan.ts'
import type { StopCause } from '../../domain/workflow/progress.ts'
import type { StoredItems } from '../../domain/workflow/stored-states.ts'
import type { HeldWorkflowRun, LastRerun, WorkflowActs } from '../../ports/workflow-acts.ts'
import type { Transaction } from '../database.ts'
import * as statements from '../statements/workflow-acts.ts'
import { taskOutput } from '../task-output.ts'

/** It ends and is opened again by others meanwhile, no more often than this. */
const mostLooks = 5

export function createWorkflowActStore(tx: Transaction): WorkflowActs {
  /** Undefined: there is none. */
  async function lockOrOpen(id: string): Promise<'locked' | 'opened' | undefined> {
    for (let look = 0; look < mostLooks; look++) {
      if ((await tx.query(statements.lockWorkflowProgress, [id])).length > 0) return 'locked'
      if ((await tx.query(statements.reopenWorkflowRun, [id])).length > 0) return 'opened'
      if ((await tx.query(statements.existsWorkflowRun, [id])).length === 0) return undefined
    }
    throw new BelfryError('serialization_conflict', 'The workflow run ends and is opened again; try again.')
  }

  return {
    async hold(id) {
      const how = await lockOrOpen(id)
      if (how === undefined) return undefined
      return (await tx.query(statements.readHeldWorkflowRun, [id])).map((row) =>
        held(row, how === 'opened'),
      )[0]
    },
    async letGo(id) {
      await tx.query(statements.closeWorkflowProgress, [id])
    },
    outputs: async (id, tasks) => (await tx.query(statements.listActOutputs, [id, tasks])).map(taskOutput),
    liveRuns: async (id, tasks) =>
      (await tx.query(statements.listLiveTaskRuns, [id, tasks])).map((row) => row.run_id),
    closeWaits: async (ids) => (await tx.query(statements.closeTaskWaits, [ids])).map((row) => row.id),
    async forget(runIds) {
      await tx.query(statements.forgetTaskRuns, [runIds])
    },
    async renumber(id, from, to) {
      if (from.length === 0) return
      await tx.query(statements.renumberTaskRuns, [id, from, to])
      await tx.query(statements.renumberTaskWaits, [id, from, to])
    },
    async closeLetters(id, tasks) {
      if (tasks.length > 0) await tx.query(statements.closeTaskLetters, [id, tasks])
    },
    keyName: async (keyId) => (await tx.query(statements.readKeyName, [keyId]))[0]?.name ?? keyId,
    async save(run) {
      const json = (value: unknown): string => JSON.stringify(value)
      await tx.query(statements.saveWorkflowAct, [
        run.id,
        run.version,
        Buffer.from(run.states),
        json(run.items),
        json(run.notes),
        run.turn,
        run.stop,
        run.timeoutMs,
        run.input === undefined ? null : json(run.input),
        json(run.acts),
        run.lastRerun === null ? null : json(run.lastRerun),
        json(run.givenOutputs),
        run.goneTasks,
        run.startsNothing,
      ])
    },
  }
}

function held(row: statements.HeldRow, reopened: boolean): HeldWorkflowRun {
  return {
    id: row.id,
    workflowId: row.workflow_id,
    workflowName: row.workflow_name,
    version: row.version,
    reopened,
    states: row.states,
    items: row.items as Record<string, StoredItems>,
    notes: row.notes as Record<string, string>,
    turn: row.turn as TaskRole | null,
    stop: row.stop as StopCause | null,
    canceling: row.canceling,
    input: row.has_input ? (row.input as JsonValue) : undefined,
    revision: row.revision,
    acts: row.acts as WorkflowRunAct[],
    lastRerun: row.last_rerun as LastRerun | null,
    givenOutputs: row.given_outputs as Record<string, JsonValue>,
    goneTasks: row.gone_tasks,
  }
}
