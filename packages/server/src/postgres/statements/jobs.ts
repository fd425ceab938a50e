/**
 * Jobs and their versions, as the API reads and writes them for one tenant. A job and its version are written
 * in one statement, so that neither is ever without the other.
 */
import { statement } from '../statement.ts'

export type JobRow = {
  id: string
  name: string
  description: string
  version: number
  definition: unknown
  paused_at: Date | null
  paused_reason: string | null
  created_at: Date
  updated_at: Date
}

const columns = `j.id, j.name, j.description, j.version, j.definition, j.paused_at, j.paused_reason,
  j.created_at, j.updated_at`

type Definition = [
  description: string,
  route: string,
  queue: string,
  priority: number,
  attemptTimeoutMs: number,
  runDeadlineMs: number | null,
  startWithinMs: number | null,
  definition: string,
]

/** A job and its first version. */
export const insertJob = statement<JobRow, [id: string, name: string, ...Definition]>(
  'job_insert',
  `
WITH j AS (
  INSERT INTO belfry.job
    (id, tenant_id, name, description, handler, queue, priority, attempt_timeout_ms, run_deadline_ms,
     start_within_ms, definition)
  VALUES ($1, belfry.tenant_id(), $2, $3, $4, $5, $6, $7, $8, $9, $10)
  RETURNING *
), v AS (
  INSERT INTO belfry.job_version (job_id, version, tenant_id, definition)
  SELECT id, version, tenant_id, definition FROM j
)
SELECT ${columns} FROM j`,
)

/** The next version of a job. */
export const updateJob = statement<JobRow, [id: string, ...Definition]>(
  'job_update',
  `
WITH j AS (
  UPDATE belfry.job
  SET description = $2, handler = $3, queue = $4, priority = $5, attempt_timeout_ms = $6,
      run_deadline_ms = $7, start_within_ms = $8, definition = $9,
      version = version + 1, updated_at = belfry.now()
  WHERE tenant_id = belfry.tenant_id() AND id = $1 AND deleted_at IS NULL
  RETURNING *
), v AS (
  INSERT INTO belfry.job_version (job_id, version, tenant_id, definition)
  SELECT id, version, tenant_id, definition FROM j
)
SELECT ${columns} FROM j`,
)

/** A workflow's own jobs change with it alone. */
const one = `SELECT ${columns} FROM belfry.job j
WHERE j.tenant_id = belfry.tenant_id() AND j.id = $1 AND j.deleted_at IS NULL AND j.workflow_id IS NULL`

/** A job that was not deleted. */
export const findJob = statement<JobRow, [id: string]>('job_find', one)

/** FOR UPDATE, so that it also waits for those who hold the job against deletion (FOR KEY SHARE). */
export const lockJob = statement<JobRow, [id: string]>('job_lock', `${one} FOR UPDATE`)

/** Held against deletion, but not against change, until the end of the transaction. */
export const holdJobByName = statement<JobRow, [name: string]>(
  'job_hold_by_name',
  `
SELECT ${columns} FROM belfry.job j
WHERE j.tenant_id = belfry.tenant_id() AND j.name = $1 AND j.deleted_at IS NULL
FOR KEY SHARE`,
)

const listed = (name: string) => `
SELECT j.id, j.name, j.description, j.version, j.paused_at, j.paused_reason, j.created_at, j.updated_at,
       j.definition #- '{handler,body}' #- '{handler,headers}' AS definition
FROM belfry.job j
WHERE j.tenant_id = belfry.tenant_id() AND j.id < $1 AND j.deleted_at IS NULL AND j.workflow_id IS NULL
  ${name}
ORDER BY j.id DESC LIMIT $2`

/** Newest first, a page at a time, without what may be large. */
export const listJobs = statement<JobRow, [beforeId: string, limit: number]>('job_list', listed(''))

/** The one of a name. */
export const listJobsNamed = statement<JobRow, [beforeId: string, limit: number, name: string]>(
  'job_list_named',
  listed('AND j.name = $3'),
)

/** Names to suggest when one is not found. */
export const listJobNames = statement<{ name: string }, [limit: number]>(
  'job_names',
  `
SELECT name FROM belfry.job
WHERE tenant_id = belfry.tenant_id() AND deleted_at IS NULL AND workflow_id IS NULL
ORDER BY id DESC LIMIT $1`,
)

/** Deletes in name only: runs go on naming the job and its versions. */
export const removeJob = statement<unknown, [id: string]>(
  'job_remove',
  `
UPDATE belfry.job SET deleted_at = belfry.now(), updated_at = belfry.now()
WHERE tenant_id = belfry.tenant_id() AND id = $1`,
)

/** A schedule or a workflow that still uses the job; one is enough to refuse its deletion. */
export const findJobUser = statement<{ name: string; kind: 'schedule' | 'workflow' }, [id: string]>(
  'job_user',
  `
(SELECT name, 'schedule' AS kind FROM belfry.schedule
 WHERE tenant_id = belfry.tenant_id() AND job_id = $1 AND deleted_at IS NULL LIMIT 1)
UNION ALL
(SELECT w.name, 'workflow' FROM belfry.workflow w
 JOIN belfry.workflow_version v
   ON v.tenant_id = w.tenant_id AND v.workflow_id = w.id AND v.version = w.version
 WHERE w.tenant_id = belfry.tenant_id() AND w.deleted_at IS NULL AND $1 = ANY (v.job_ids) LIMIT 1)`,
)

export type RunTemplateRow = {
  job_id: string
  job_name: string
  job_version: number
  definition: unknown
  /** Something may hold its runs: they stand behind the gate. */
  limited: boolean
  /** 1 for every tenant so far: no route sets it. */
  tenant_weight: number
}

const template = `
SELECT j.id AS job_id, j.name AS job_name, j.version AS job_version, j.definition, j.limited,
       t.weight AS tenant_weight
FROM belfry.job j JOIN belfry.tenant t ON t.id = j.tenant_id
WHERE j.tenant_id = belfry.tenant_id() AND j.deleted_at IS NULL AND `

/** What a run of this job is made of. */
export const findRunTemplateById = statement<RunTemplateRow, [jobId: string]>(
  'job_template_by_id',
  `${template} j.id = $1`,
)

/** The same by name. */
export const findRunTemplateByName = statement<RunTemplateRow, [name: string]>(
  'job_template_by_name',
  `${template} j.name = $1`,
)

/** The job of this name, or the last one that had it: runs outlive their job. */
export const findJobIdByName = statement<{ id: string }, [name: string]>(
  'job_id_by_name',
  `
SELECT id FROM belfry.job WHERE tenant_id = belfry.tenant_id() AND name = $1
ORDER BY (deleted_at IS NULL) DESC, id DESC LIMIT 1`,
)
