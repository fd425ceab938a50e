/**
 * The Catalog on Postgres: one transaction a request, as belfry_app under row-level security, or as
 * belfry_platform for tenants and keys (transact.ts).
 */
import { createCalendarShelf } from '../../engine/calendar-shelf.ts'
import type { CalendarShelf } from '../../ports/calendars.ts'
import type { Access, Catalog, CatalogTx, CommonTx, PlatformTx } from '../../ports/catalog.ts'
import type { Database, Transaction } from '../database.ts'
import type { ReadReplica } from '../read-replica.ts'
import { findExternalId } from '../statements/external-ids.ts'
import { readNow } from '../statements/idempotency.ts'
import { createAuditReader, createAuditTrail } from './audit-store.ts'
import { createBackfillStore } from './backfill-store.ts'
import { createCalendarStore } from './calendar-store.ts'
import { createCancelStore } from './cancel-store.ts'
import { createClusterStore, createOwnDemand } from './cluster-store.ts'
import { createDeadLetterStore } from './dead-letter-store.ts'
import { createExplanationStore } from './explanation-store.ts'
import { createIdempotencyStore } from './idempotency-store.ts'
import { createJobStore } from './job-store.ts'
import { createKeyStore } from './key-store.ts'
import { createLimitStore } from './limit-store.ts'
import { createOwnContainerPolicy, createTenantContainerPolicies } from './container-policy-store.ts'
import { createQuotaStore, createTenantQuotas } from './quota-store.ts'
import { createMemberStore, createPersonSessionStore } from './member-store.ts'
import { createPeopleStore } from './people-store.ts'
import { createReplanList, createReplanRequests } from './replan-catalog.ts'
import { createRunCatalog } from './run-catalog.ts'
import { createRunIntake } from './run-intake.ts'
import { createScheduleStore } from './schedule-store.ts'
import { createSecretStore, createTenantKeyList, createTenantKeyStore } from './secret-store.ts'
import { createServiceAccountStore } from './service-account-store.ts'
import { createTenantStore } from './tenant-store.ts'
import { createTransact } from './transact.ts'
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
  /** For what may be a little old. */
  replica?: ReadReplica | undefined
}): Catalog {
  const { dataVersion = null, shelf = createCalendarShelf(), replica } = options
  const transact = createTransact(options)

  return {
    ...(replica && { saw: replica.saw }),
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
          members: createMemberStore(tx, access.tenantId),
          personSessions: createPersonSessionStore(tx),
          serviceAccounts: createServiceAccountStore(tx),
          backfills: createBackfillStore(tx, access.tenantId),
          calendars: createCalendarStore(tx, shelf),
          limits: createLimitStore(tx, access.tenantId),
          containerPolicy: createOwnContainerPolicy(tx),
          quotas: createQuotaStore(tx),
          explanations: createExplanationStore(tx),
          replans: createReplanRequests(tx),
          secrets: createSecretStore(tx),
          tenantKey: createTenantKeyStore(tx),
          workers: createWorkerCatalog(tx),
          demand: createOwnDemand(tx),
          externalId: async () => only(await tx.query(findExternalId, [])).external_id,
          workflows: createWorkflowStore(tx, access.tenantId),
          auditLog: createAuditReader(tx, access.tenantId),
        }
        return work(catalog)
      }),
    withinPlatform: (access, work) =>
      transact('belfry_platform', access, (tx) => {
        const platform: PlatformTx = {
          ...common(tx, access),
          tenants: createTenantStore(tx),
          people: createPeopleStore(tx),
          containerPolicies: createTenantContainerPolicies(tx),
          quotas: createTenantQuotas(tx),
          replans: createReplanList(tx),
          cluster: createClusterStore(tx),
          tenantKeys: createTenantKeyList(tx),
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
    audit: createAuditTrail(tx, access),
  }
}
