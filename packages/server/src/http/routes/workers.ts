/**
 * Endpoints of the worker protocol: who calls and what is asked, handed to the gate
 * (engine/workers/worker-gate.ts); the jobs of functions, kept as their definitions in code say; and what can
 * be seen of workers and of the logs that they write.
 */
import type { FunctionJob, FunctionRegistered, JobDefinition } from '@belfry/contract'
import { BelfryError, jobDefinitionSchema, maxLogBytes, secretsOf } from '@belfry/contract'
import { isDeepStrictEqual } from 'node:util'
import { checkMayActAs, checkRunAs } from '../../engine/catalog/act-as.ts'
import type { WorkerOwner } from '../../engine/workers/session-book.ts'
import type { AuditEntry } from '../../ports/audit.ts'
import type { CatalogTx, JobRecord } from '../../ports/catalog.ts'
import type { Credential } from '../../ports/credentials.ts'
import type { Endpoints, Tools } from '../endpoint.ts'
import { checkGathering } from '../gathering-rules.ts'
import { mergedRetry } from '../merged-retry.ts'
import { checkSecrets } from '../named-secrets.ts'
import { noSuch } from '../missing.ts'
import { pageById } from '../page.ts'
import { invalidRequest } from '../validation.ts'
import { runLogView, workerView } from '../views.ts'

type WorkerEndpoints = Pick<
  Endpoints,
  | 'functionRegister'
  | 'workerOpen'
  | 'workerList'
  | 'workerClaim'
  | 'workerHeartbeat'
  | 'workerComplete'
  | 'workerRelease'
  | 'workerLog'
  | 'workerClose'
  | 'runLog'
>

/** Chunks that one page of a log is made of. */
const chunksPerPage = 100

export const workerEndpoints: WorkerEndpoints = {
  functionRegister: {
    as: 'tenant',
    async answer({ tx, tools, body, credential }) {
      const jobs: FunctionRegistered['jobs'] = []
      for (const [index, job] of body.jobs.entries())
        jobs.push(await register(tx, tools, credential, job, index))
      return { body: { jobs } }
    },
  },
  workerOpen: {
    as: 'worker',
    answer: async ({ gate, credential, body }) => ({ body: await gate.open(ownerOf(credential), body) }),
  },
  workerList: {
    as: 'tenant',
    async answer({ tx, query, credential }) {
      const scope = { list: 'workers', tenantId: credential.tenantId, filter: {} }
      return { body: await pageById(scope, query, (page) => tx.workers.list(page), workerView) }
    },
  },
  workerClaim: {
    as: 'worker',
    answer: async ({ gate, credential, params, body, signal }) => ({
      body: await gate.claim(ownerOf(credential), params.id, body, signal),
    }),
  },
  workerHeartbeat: {
    as: 'worker',
    answer: async ({ gate, credential, params, body }) => ({
      body: await gate.heartbeat(ownerOf(credential), params.id, body.progress),
    }),
  },
  workerComplete: {
    as: 'worker',
    async answer({ gate, credential, params, body }) {
      eachRunOnce(body.ends, '/ends')
      return { body: { results: await gate.complete(ownerOf(credential), params.id, body.ends) } }
    },
  },
  workerRelease: {
    as: 'worker',
    async answer({ gate, credential, params, body }) {
      const releasedRunIds = await gate.release(ownerOf(credential), params.id, body.runs)
      return { body: { releasedRunIds: [...releasedRunIds] } }
    },
  },
  workerLog: {
    as: 'worker',
    async answer({ gate, credential, params, body }) {
      eachRunOnce(body.chunks, '/chunks')
      const results = await gate.log(ownerOf(credential), params.id, body.chunks)
      return { body: { results: [...results], logCapBytes: maxLogBytes } }
    },
  },
  workerClose: {
    as: 'worker',
    async answer({ gate, credential, params }) {
      await gate.close(ownerOf(credential), params.id)
      return { body: undefined }
    },
  },
  runLog: {
    as: 'tenant',
    async answer({ tx, params, query }) {
      const run = await tx.runs.find(params.id, { before: null, limit: 1 })
      if (run === undefined) throw noSuch('run', params.id)
      const chunks = await tx.workers.logChunks(
        params.id,
        query.attempt ?? null,
        query.after,
        chunksPerPage + 1,
      )
      return { body: runLogView(chunks, query.attempt ?? null, query.after, chunksPerPage) }
    },
  },
}

function ownerOf({ tenantId, keyId, queues }: Credential): WorkerOwner {
  return { tenantId, keyId, queues }
}

function eachRunOnce(items: readonly { readonly runId: string }[], pointer: string): void {
  const seen = new Set<string>()
  for (const [index, { runId }] of items.entries()) {
    if (seen.has(runId))
      throw invalidRequest([
        { pointer: `${pointer}/${index}/runId`, message: 'is there before; send each run once' },
      ])
    seen.add(runId)
  }
}

/**
 * Makes the job of a function, or changes it where its definition in code says something else than is stored.
 * What the code leaves open stays as people set it, and nothing changed makes no version.
 */
async function register(
  tx: CatalogTx,
  tools: Tools,
  credential: Credential,
  job: FunctionJob,
  index: number,
): Promise<FunctionRegistered['jobs'][number]> {
  const found = await tx.jobs.holdByName(job.name)
  // locked only where something is to be changed: many workers start at once with the same definitions
  const change = found === undefined ? 'created' : isSame(found, job, index) ? 'none' : 'updated'
  const present = change === 'updated' && found !== undefined ? await tx.jobs.lock(found.id) : found
  const definition = definitionOf(job, present?.definition, index)
  checkRegister(credential, job, present, definition, index)
  const identity = [present?.definition.runAs ?? null, definition.runAs]
  // a worker brings the code of what runs as somebody, and may not say as whom
  if (identity[0] !== identity[1]) checkMayActAs(credential, identity, `/jobs/${index}/runAs`)
  const wider = present && widened(present.definition, definition)
  if (wider !== undefined) checkMayActAs(credential, identity, `/jobs/${index}/${wider}`)
  if (change !== 'none') await checkRunAs(tx, definition, `/jobs/${index}`)
  if (change !== 'none') await checkSecrets(tx, definition.handler, `/jobs/${index}/secrets`)
  if (definition.collect !== null) {
    const user = present === undefined ? undefined : await tx.jobs.userOf(present.id)
    checkGathering(definition, user, `/jobs/${index}`)
  }
  const description = job.description ?? present?.description ?? ''
  const saved = await save(tx, tools, { name: job.name, description, definition }, present, change)
  if (change !== 'none') tx.audit.record(auditOf(saved, present))
  return { id: saved.id, name: saved.name, version: saved.version, queue: saved.definition.queue, change }
}

/** As if it were saved by hand (http/audit-calls.ts). */
function auditOf(saved: JobRecord, before: JobRecord | undefined): AuditEntry {
  const { id, name, version } = saved
  const subject = { kind: 'job', id, name } as const
  if (before === undefined) return { action: 'job.create', subject, details: { version } }
  const changed = (Object.keys(saved.definition) as (keyof JobDefinition)[]).filter(
    (field) => !isDeepStrictEqual(saved.definition[field], before.definition[field]),
  )
  const words = saved.description === before.description ? [] : ['description']
  return { action: 'job.update', subject, details: { fields: [...changed, ...words].sort(), version } }
}

async function save(
  tx: CatalogTx,
  tools: Tools,
  wanted: { name: string; description: string; definition: JobDefinition },
  present: JobRecord | undefined,
  change: 'created' | 'updated' | 'none',
): Promise<JobRecord> {
  if (present === undefined) return tx.jobs.insert({ id: tools.ids.uuidv7(await tx.nowMs()), ...wanted })
  if (change === 'none') return present
  return tx.jobs.update(present.id, { description: wanted.description, definition: wanted.definition })
}

function isSame(present: JobRecord, job: FunctionJob, index: number): boolean {
  const sameWords = job.description === undefined || job.description === present.description
  return sameWords && isDeepStrictEqual(definitionOf(job, present.definition, index), present.definition)
}

function definitionOf(
  { name, description: _description, retry, secrets, ...rest }: FunctionJob,
  present: JobDefinition | undefined,
  index: number,
): JobDefinition {
  const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined))
  const before = present?.handler.kind === 'function' ? present.handler.secrets : undefined
  const named = secrets ?? before ?? []
  return jobDefinitionSchema.parse({
    ...present,
    ...given,
    handler: { kind: 'function', name, ...(named.length === 0 ? {} : { secrets: named }) },
    retry: mergedRetry(present?.retry ?? {}, retry, `/jobs/${index}/retry`),
  })
}

/**
 * What of a change gives the function more of the account as which it runs, or gives it to other workers: a
 * secret that it did not name before, another queue. Undefined: nothing does.
 */
function widened(before: JobDefinition, after: JobDefinition): 'secrets' | 'queue' | undefined {
  const known = new Set(secretsOf(before.handler))
  if (secretsOf(after.handler).some((name) => !known.has(name))) return 'secrets'
  return before.queue === after.queue ? undefined : 'queue'
}

/** A worker may change the jobs of its functions in its queues, and nothing else. */
function checkRegister(
  { queues, permissions }: Credential,
  job: FunctionJob,
  present: JobRecord | undefined,
  definition: JobDefinition,
  index: number,
): void {
  const handler = present?.definition.handler
  if (handler !== undefined && (handler.kind !== 'function' || handler.name !== job.name)) {
    const message = `names a job whose handler is something else (${handler.kind}); choose another name`
    throw new BelfryError('name_taken', `"${job.name}" ${message}.`, {
      errors: [{ pointer: `/jobs/${index}/name`, message }],
    })
  }
  if (queues === null || permissions.has('job.write')) return
  const outside = [present?.definition.queue, definition.queue].find(
    (queue) => queue !== undefined && !queues.includes(queue),
  )
  if (outside === undefined) return
  const message = `would be in the queue "${outside}", and this key is bound to ${queues.join(', ')}`
  throw new BelfryError('forbidden', `The job "${job.name}" ${message}.`, {
    errors: [{ pointer: `/jobs/${index}/queue`, message }],
  })
}
