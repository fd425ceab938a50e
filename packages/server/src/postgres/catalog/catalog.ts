/**
 * The Catalog on Postgres: one transaction a request, as belfry_app under row-level security, or as
 * belfry_platform for tenants and keys. A dry run does everything and then throws its own result out of the
 * transaction, which rolls it back.
 */
import { createCalendarShelf } from '../../engine/calendar-shelf.ts'
import type { CalendarShelf } from '../../ports/calendars.ts'
import type { Access, Catalog, CatalogTx, CommonTx, PlatformTx } from '../../ports/catalog.ts'
import type { Database, DatabaseRole, Transaction } from '../database.ts'
import { readNow } from '../statements/idempotency.ts'
import { createBackfillStore } from './backfill-store.ts'
import { createCalendarStore } from './calendar-store.ts'
import { createCancelStore } from './cancel-store.ts'
import { createDeadLetterStore } from './dead-letter-store.ts'
import { createExplanationStore } from './explanation-store.ts'
import { createIdempotencyStore } from './idempotency-store.ts'
import { createJobStore } from './job-store.ts'
import { createKeyStore } from './key-store.ts'
import { createLimitStore } from './limit-store.ts'
import { createReplanList, createReplanRequests } from './replan-catalog.ts'
import { createRunCatalog } from './run-catalog.ts'
import { createRunIntake } from './run-intake.ts'
import { createScheduleStore } from './schedule-store.ts'
import { createTenantStore } from './tenant-store.ts'
import { msOf, only } from './values.ts'
import { createWorkerCatalog } from './worker-catalog.ts'
import { createWorkflowStore } from './workflow-store.ts'

export function createPostgresCatalog(options: {
  db: Database
  timeoutMs?: number
  /** Release of the zone data that this process computes next times with. */
  dataVersion?: string
  /** Of this process; left out, one of its own. */
  shelf?: CalendarShelf
}): Catalog {
  const { db, timeoutMs, dataVersion = null, shelf = createCalendarShelf() } = options

  function transact<T>(
    role: DatabaseRole,
    access: Access,
    work: (tx: Transaction) => Promise<T>,
  ): Promise<T> {
    const scope = { role, tenantId: access.tenantId, readOnly: access.readOnly, timeoutMs }
    if (!access.dryRun) return db.transaction(scope, work)
    return takingBack((rollBack) =>
      db.transaction(scope, async ({ query }) => {
        // what would go out with the COMMIT is tried as well
        const last: Promise<unknown>[] = []
        const result = await work({
          query,
          atEnd: (statement, params) => void last.push(query(statement, params)),
        })
        await Promise.all(last)
        return rollBack(result)
      }),
    )
  }

  return {
    within: (access, work) =>
      transact('belfry_app', access, (tx) => {
        const catalog: CatalogTx = {
          ...common(tx, access),
          jobs: createJobStore(tx, access.tenantId),
          schedules: createScheduleStore(tx, { dataVersion, shelf }),
          runs: createRunCatalog(tx, access.tenantId),
          intake: createRunIntake(tx, access.tenantId),
          cancels: createCancelStore(tx),
          deadLetters: createDeadLetterStore(tx),
          keys: createKeyStore(tx, access.tenantId),
          backfills: createBackfillStore(tx, access.tenantId),
          calendars: createCalendarStore(tx, shelf),
          limits: createLimitStore(tx, access.tenantId),
          explanations: createExplanationStore(tx),
          replans: createReplanRequests(tx),
          workers: createWorkerCatalog(tx),
          workflows: createWorkflowStore(tx, access.tenantId),
        }
        return work(catalog)
      }),
    withinPlatform: (access, work) =>
      transact('belfry_platform', access, (tx) => {
        const platform: PlatformTx = {
          ...common(tx, access),
          tenants: createTenantStore(tx),
          replans: createReplanList(tx),
        }
        return work(platform)
      }),
  }
}

function common(tx: Transaction, access: Access): CommonTx {
  let now: Promise<number> | undefined
  return {
    nowMs: () => {
      now ??= tx.query(readNow, []).then((rows) => msOf(only(rows).now))
      return now
    },
    idempotency: createIdempotencyStore(tx, access.tenantId),
  }
}

/** Gives `work` a way to end its transaction by a throw and still answer. */
async function takingBack<T>(work: (rollBack: (result: T) => never) => Promise<T>): Promise<T> {
  let kept: { readonly result: T } | undefined
  const signal = new Error('The dry run ends here.')
  try {
    return await work((result) => {
      kept = { result }
      throw signal
    })
  } catch (error) {
    if (error === signal && kept !== undefined) return kept.result
    throw error
  }
}
