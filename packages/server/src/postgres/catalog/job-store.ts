/**
 * Jobs of one tenant, with their versions. The columns beside the definition repeat what claims and inserts
 * need without reading JSON.
 */
import type { JobDefinition } from '@belfry/contract'
import { routeOf } from '../../domain/route.ts'
import type { JobRecord, JobStore, JobSummaryRecord } from '../../ports/catalog.ts'
import type { Transaction } from '../database.ts'
import type { JobRow } from '../statements/jobs.ts'
import * as statements from '../statements/jobs.ts'
import { definitionText, storedDefinition } from './stored-definition.ts'
import { pauseRecord } from './limit-records.ts'
import { lastId, msOf, only, refusingTaken } from './values.ts'

export function createJobStore(tx: Transaction, tenantId: string): JobStore {
  const first = (rows: readonly JobRow[]): JobRecord | undefined => rows.map(jobRecord)[0]
  const columns = (description: string, definition: JobDefinition) =>
    columnsOf(tenantId, description, definition)
  return {
    async insert({ id, name, description, definition }) {
      const taken = `A job named "${name}" exists; choose another name or change that job.`
      const write = tx.query(statements.insertJob, [id, name, ...columns(description, definition)])
      return jobRecord(only(await refusingTaken('job_name', taken, write)))
    },
    find: async (id) => first(await tx.query(statements.findJob, [id])),
    lock: async (id) => first(await tx.query(statements.lockJob, [id])),
    holdByName: async (name) => first(await tx.query(statements.holdJobByName, [name])),
    names: async (limit) => (await tx.query(statements.listJobNames, [limit])).map((row) => row.name),
    async list({ beforeId, limit }, { name }) {
      const page = [beforeId ?? lastId, limit] as const
      const rows =
        name === undefined
          ? await tx.query(statements.listJobs, page)
          : await tx.query(statements.listJobsNamed, [...page, name])
      return rows.map(summaryRecord)
    },
    async update(id, { description, definition }) {
      return jobRecord(only(await tx.query(statements.updateJob, [id, ...columns(description, definition)])))
    },
    async remove(id) {
      await tx.query(statements.removeJob, [id])
    },
    async userOf(id) {
      const [user] = await tx.query(statements.findJobUser, [id])
      return user && `${user.kind} "${user.name}"`
    },
  }
}

function columnsOf(tenantId: string, description: string, definition: JobDefinition) {
  const { handler, queue, priority, attemptTimeoutMs, runDeadlineMs, startWithinMs } = definition
  const route = routeOf(handler, tenantId)
  const limits = [attemptTimeoutMs, runDeadlineMs, startWithinMs] as const
  return [description, route, queue, priority, ...limits, definitionText(definition)] as const
}

function jobRecord(row: JobRow): JobRecord {
  return { ...summaryRecord(row), definition: storedDefinition(row.definition) }
}

function summaryRecord(row: JobRow): JobSummaryRecord {
  return {
    id: row.id,
    name: row.name,
    description: row.description,
    version: row.version,
    definition: storedDefinition(row.definition),
    paused: pauseRecord(row.paused_at, row.paused_reason),
    createdAtMs: msOf(row.created_at),
    updatedAtMs: msOf(row.updated_at),
  }
}
