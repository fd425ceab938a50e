/**
 * Workflows of one tenant, with their versions and the jobs that are their own. What is written of a version
 * is never written again.
 */
import type { JobDefinition, WorkflowDefinition } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import { routeOf } from '../../domain/route.ts'
import type {
  NewWorkflowVersion,
  OwnJob,
  TaskJob,
  WorkflowRecord,
  WorkflowStore,
  WorkflowSummaryRecord,
} from '../../ports/workflows.ts'
import { violatedConstraint } from '../database-error.ts'
import type { Transaction } from '../database.ts'
import type { WorkflowRow, WorkflowSummaryRow } from '../statements/workflows.ts'
import { pokeGatesOfWorkflow, setWorkflowConcurrency } from '../statements/workflow-gates.ts'
import * as statements from '../statements/workflows.ts'
import { definitionText, storedDefinition } from './stored-definition.ts'
import { lastId, msOf, only } from './values.ts'
import { createTaskWaitStore } from './task-wait-store.ts'
import { createWorkflowActStore } from './workflow-act-store.ts'
import { createWorkflowInsightStore } from './workflow-insight-store.ts'
import { createEventStore } from './event-store.ts'
import { createWorkflowRunStore } from './workflow-run-store.ts'

export function createWorkflowStore(tx: Transaction, tenantId: string): WorkflowStore {
  const find = async (id: string): Promise<WorkflowRecord | undefined> =>
    (await tx.query(statements.findWorkflow, [id])).map(workflowRecord)[0]
  return {
    runs: createWorkflowRunStore(tx),
    waits: createTaskWaitStore(tx),
    acts: createWorkflowActStore(tx),
    insight: createWorkflowInsightStore(tx),
    async insert({ id, name, ...version }) {
      const write = tx.query(statements.insertWorkflow, [id, name, ...columnsOf(version)])
      const made = workflowRecord(only(await write.catch(raced)))
      await setLimits(tx, id, version)
      return made
    },
    async update(id, change) {
      const changed = workflowRecord(
        only(await tx.query(statements.updateWorkflow, [id, ...columnsOf(change)])),
      )
      await setLimits(tx, id, change)
      // there may be room for more now
      await tx.query(pokeGatesOfWorkflow, [id])
      return changed
    },
    ...holdingSide(tx, find),
    keepOwnJobs: (workflowId, jobs) => keepOwnJobs(tx, tenantId, workflowId, jobs),
    async find(id, version) {
      if (version === undefined) return find(id)
      return (await tx.query(statements.findWorkflowVersion, [id, version])).map(workflowRecord)[0]
    },
    names: async (limit) => (await tx.query(statements.listWorkflowNames, [limit])).map((row) => row.name),
    async list({ beforeId, limit }, { name }) {
      const page = [beforeId ?? lastId, limit] as const
      const rows =
        name === undefined
          ? await tx.query(statements.listWorkflows, page)
          : await tx.query(statements.listWorkflowsNamed, [...page, name])
      return rows.map(summaryRecord)
    },
    async versions(id, { beforeVersion, limit }) {
      const rows = await tx.query(statements.listWorkflowVersions, [id, beforeVersion, limit])
      return rows.map(({ version, task_count: taskCount, created_at: at }) => {
        return { version, taskCount, createdAtMs: msOf(at) }
      })
    },
    triggerEdges: (limit) => tx.query(statements.listTriggerEdges, [limit]),
    async scheduleOf(id) {
      return (await tx.query(statements.findWorkflowSchedule, [id]))[0]?.name
    },
    events: createEventStore(tx),
    async remove(id) {
      await tx.query(statements.removeWorkflow, [id])
    },
  }
}

type Holding = 'holdJobs' | 'holdWorkflows' | 'lock' | 'lockByName' | 'holdByName'

/** Until the end of the transaction. */
function holdingSide(
  tx: Transaction,
  find: (id: string) => Promise<WorkflowRecord | undefined>,
): Pick<WorkflowStore, Holding> {
  return {
    async holdJobs(names) {
      if (names.length === 0) return new Map()
      const found = await tx.query(statements.holdJobsByName, [names])
      return new Map(
        found.map(({ name, id, definition }) => [name, { id, definition: storedDefinition(definition) }]),
      )
    },
    async holdWorkflows(names) {
      if (names.length === 0) return new Map()
      const found = await tx.query(statements.holdWorkflowsByName, [names])
      return new Map(found.map(({ name, id }) => [name, id]))
    },
    // locked first and read afterwards: a lock that had to wait is followed by a look at what it waited for
    async lock(id) {
      const [held] = await tx.query(statements.holdWorkflow, [id])
      return held && find(held.id)
    },
    async lockByName(name) {
      const [held] = await tx.query(statements.holdWorkflowByName, [name])
      if (held !== undefined) return find(held.id)
      await tx.query(statements.lockWorkflowName, [name])
      const [made] = await tx.query(statements.holdWorkflowByName, [name])
      return made && find(made.id)
    },
    async holdByName(name) {
      const [held] = await tx.query(statements.keepWorkflowByName, [name])
      return held && find(held.id)
    },
  }
}

/** Limits and triggers of the newest version. */
async function setLimits(tx: Transaction, id: string, { definition }: NewWorkflowVersion): Promise<void> {
  const { concurrency } = definition
  const text = concurrency === undefined ? null : JSON.stringify(concurrency)
  await tx.query(setWorkflowConcurrency, [id, text])
  const { triggers } = definition
  await tx.query(statements.setWorkflowTriggers, [
    id,
    triggers.map((trigger) => ('event' in trigger ? 'event' : 'workflow')),
    triggers.map((trigger) => ('event' in trigger ? trigger.event : trigger.workflow)),
    triggers.map((trigger) => ('event' in trigger ? '{}' : `{${trigger.states.join()}}`)),
    triggers.map(({ input }) => (input === undefined ? null : JSON.stringify(input))),
  ])
}

async function keepOwnJobs(
  tx: Transaction,
  tenantId: string,
  workflowId: string,
  jobs: readonly OwnJob[],
): Promise<ReadonlyMap<string, TaskJob>> {
  if (jobs.length === 0) return new Map()
  const of = <T>(value: (definition: JobDefinition) => T): T[] => jobs.map((job) => value(job.definition))
  const write = tx.query(statements.keepOwnJobs, [
    workflowId,
    jobs.map(({ newId }) => newId),
    jobs.map(({ name }) => name),
    of(({ handler }) => routeOf(handler, tenantId)),
    of(({ queue }) => queue),
    of(({ priority }) => priority),
    of(({ attemptTimeoutMs }) => attemptTimeoutMs),
    of(({ runDeadlineMs }) => runDeadlineMs),
    of(({ startWithinMs }) => startWithinMs),
    of(definitionText),
  ])
  const kept = await write.catch(raced)
  return new Map(kept.map(({ name, id, version }) => [name, { jobId: id, version }]))
}

function columnsOf({ description, definition, taskJobs }: NewWorkflowVersion) {
  const ids = taskJobs.map((job) => job?.jobId ?? null)
  const versions = taskJobs.map((job) => job?.version ?? null)
  return [description, taskJobs.length, JSON.stringify(definition), ids, versions] as const
}

/** What is in the way was not made as a workflow of this name: a job of the name of a task. */
function raced(error: unknown): never {
  const constraint = violatedConstraint(error)
  if (constraint !== 'workflow_name' && constraint !== 'job_name') throw error
  const words = 'A workflow of this name was made at the same moment; send it again.'
  throw new BelfryError('serialization_conflict', words, { cause: error })
}

function summaryRecord(row: WorkflowSummaryRow): WorkflowSummaryRecord {
  return {
    id: row.id,
    name: row.name,
    description: row.description,
    version: row.version,
    taskCount: row.task_count,
    createdAtMs: msOf(row.created_at),
    updatedAtMs: msOf(row.updated_at),
  }
}

function workflowRecord(row: WorkflowRow): WorkflowRecord {
  return { ...summaryRecord(row), definition: row.definition as WorkflowDefinition }
}
