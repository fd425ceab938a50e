/**
 * Endpoints of limits: pools, the limit of the tenant, queues, and pauses of jobs and queues. What changes a
 * limit is brought to the runs by the gatekeeper, which a hint calls.
 */
import { BelfryError, maxPoolsOfTenant } from '@belfry/contract'
import type { PoolFields, PoolRecord } from '../../ports/limits.ts'
import type { CatalogTx } from '../../ports/catalog.ts'
import type { Hint } from '../../ports/hints.ts'
import type { Endpoints } from '../endpoint.ts'
import { checkIfMatch } from '../etag.ts'
import { poolView, queueSummaryView, queueView } from '../limit-views.ts'
import { noSuch } from '../missing.ts'
import { pageById } from '../page.ts'
import { invalidRequest } from '../validation.ts'
import { jobView } from '../views.ts'

type LimitEndpoints = Pick<
  Endpoints,
  | 'poolCreate'
  | 'poolList'
  | 'poolGet'
  | 'poolUpdate'
  | 'poolDelete'
  | 'tenantLimitGet'
  | 'tenantLimitSet'
  | 'queueList'
  | 'queueGet'
  | 'queuePause'
  | 'queueResume'
  | 'jobPause'
  | 'jobResume'
>

/** Groups of runs that a queue shows with what holds them. */
const shownGroups = 50

/** Limits of the tenant have changed. */
const gateHint = (tenantId: string): { kind: 'hint'; hint: Hint } => {
  return { kind: 'hint', hint: { topic: 'gate', key: tenantId } }
}

const poolEndpoints: Pick<
  LimitEndpoints,
  'poolCreate' | 'poolList' | 'poolGet' | 'poolUpdate' | 'poolDelete'
> = {
  poolCreate: {
    as: 'tenant',
    async answer({ tx, tools, body, credential, after }) {
      if ((await tx.limits.countPools()) >= maxPoolsOfTenant) {
        const most = `${maxPoolsOfTenant} pools that a tenant may have`
        const message = `is one more than the ${most}; delete one first`
        throw invalidRequest([{ pointer: '/name', message }])
      }
      const id = tools.ids.uuidv7(await tx.nowMs())
      const pool = await tx.limits.insertPool({ id, ...body })
      after(gateHint(credential.tenantId))
      return { ...answerOf(pool), location: `/v1/pools/${id}` }
    },
  },
  poolList: {
    as: 'tenant',
    async answer({ tx, query, credential }) {
      const filter = { name: query.name }
      const scope = { list: 'pools', tenantId: credential.tenantId, filter }
      return { body: await pageById(scope, query, (page) => tx.limits.listPools(page, filter), poolView) }
    },
  },
  poolGet: {
    as: 'tenant',
    async answer({ tx, params }) {
      const pool = await tx.limits.findPool(params.id)
      if (pool === undefined) throw noSuch('pool', params.id)
      return answerOf(pool)
    },
  },
  poolUpdate: {
    as: 'tenant',
    async answer({ tx, params, body, ifMatch, credential, after }) {
      const pool = await heldPool(tx, params.id, ifMatch)
      const fields: PoolFields = {
        slots: body.slots === undefined ? pool.slots : body.slots,
        rate: body.rate === undefined ? pool.rate : body.rate,
        host: body.host === undefined ? pool.host : body.host,
      }
      if (fields.slots === null && fields.rate === null)
        throw invalidRequest([
          { pointer: '/slots', message: 'limits nothing then; keep slots, a rate or both' },
        ])
      const changed = await tx.limits.updatePool(pool.id, fields)
      after(gateHint(credential.tenantId))
      return answerOf(changed)
    },
  },
  poolDelete: {
    as: 'tenant',
    async answer({ tx, params, ifMatch, credential, after }) {
      const pool = await heldPool(tx, params.id, ifMatch)
      const user = await tx.limits.removePool(pool)
      if (user !== undefined) {
        const fix = 'take it out of its concurrency first'
        const message = `The job "${user}" names the pool "${pool.name}"; ${fix}.`
        throw new BelfryError('in_use', message)
      }
      after(gateHint(credential.tenantId))
      return { body: undefined, audited: { subjectName: pool.name } }
    },
  },
}

export const limitEndpoints: LimitEndpoints = {
  ...poolEndpoints,
  tenantLimitGet: { as: 'tenant', answer: async ({ tx }) => ({ body: await tx.limits.tenantLimit() }) },
  tenantLimitSet: {
    as: 'tenant',
    async answer({ tx, body, credential, after }) {
      await tx.limits.setTenantLimit(body.runLimit)
      after(gateHint(credential.tenantId))
      return { body: await tx.limits.tenantLimit() }
    },
  },
  queueList: {
    as: 'tenant',
    answer: async ({ tx }) => ({ body: { items: (await tx.limits.queues()).map(queueSummaryView) } }),
  },
  queueGet: {
    as: 'tenant',
    async answer({ tx, params, query }) {
      const queue = await tx.limits.queue(params.queue)
      const next = await tx.limits.nextRuns(params.queue, query.limit)
      const held = await tx.limits.heldGroups(params.queue, shownGroups)
      return { body: queueView(queue, await tx.limits.weight(), next, held) }
    },
  },
  queuePause: {
    as: 'tenant',
    async answer({ tx, params, body, credential, after }) {
      await tx.limits.pauseQueue(params.queue, body.reason)
      after(gateHint(credential.tenantId))
      return { body: queueSummaryView(await tx.limits.queue(params.queue)) }
    },
  },
  queueResume: {
    as: 'tenant',
    async answer({ tx, params, credential, after }) {
      await tx.limits.pauseQueue(params.queue, null)
      after(gateHint(credential.tenantId))
      return { body: queueSummaryView(await tx.limits.queue(params.queue)) }
    },
  },
  jobPause: {
    as: 'tenant',
    async answer({ tx, params, body, credential, after }) {
      const answer = await setJobPause(tx, params.id, body.reason)
      after(gateHint(credential.tenantId))
      return answer
    },
  },
  jobResume: {
    as: 'tenant',
    async answer({ tx, params, credential, after }) {
      const answer = await setJobPause(tx, params.id, null)
      after(gateHint(credential.tenantId))
      return answer
    },
  },
}

/** The version stays: what runs are made of does not change. */
async function setJobPause(tx: CatalogTx, id: string, reason: string | null) {
  const job = await tx.jobs.lock(id)
  if (job === undefined) throw noSuch('job', id)
  await tx.limits.pauseJob(id, reason)
  const changed = await tx.jobs.find(id)
  return { body: jobView(changed ?? job), version: job.version }
}

async function heldPool(tx: CatalogTx, id: string, ifMatch: string | undefined): Promise<PoolRecord> {
  const pool = await tx.limits.lockPool(id)
  if (pool === undefined) throw noSuch('pool', id)
  checkIfMatch(ifMatch, pool.version)
  return pool
}

function answerOf(pool: PoolRecord) {
  return { body: poolView(pool), version: pool.version }
}
