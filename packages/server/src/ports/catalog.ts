/**
 * What the API reads and writes. Each request is one transaction for one tenant; whatever it does happens
 * whole or not at all, a dry run does everything and then takes it back. Stores say nothing about HTTP and
 * decide nothing: they answer `undefined` for what this tenant does not have. Instants are epoch ms; `nowMs`
 * is always the database's.
 */
import type {
  AttemptOutcome,
  Dependency,
  JobDefinition,
  JobSummary,
  JsonValue,
  RunReason,
  RunSource,
  RunState,
  TriggerRule,
} from '@belfry/contract'
import type { AwaitedReport } from '../domain/run-insight/facts.ts'
import type { Gathering } from '../domain/run-insight/gathering-words.ts'
import type { AuditCaller, AuditTrail } from './audit.ts'
import type { AuditReader } from './audit-log.ts'
import type { BackfillStore } from './backfills.ts'
import type { CalendarStore } from './calendars.ts'
import type { ClusterStore, OwnDemand } from './cluster.ts'
import type { DeadLetterStore } from './dead-letters.ts'
import type { ExplanationStore } from './explanations.ts'
import type { LimitStore, PauseRecord } from './limits.ts'
import type { Found, PageRequest } from './paging.ts'
import type { OwnContainerPolicy, TenantContainerPolicies } from './container-policies.ts'
import type { QuotaStore, TenantQuotas } from './quotas.ts'
import type { MemberStore, PeopleStore, PersonSessionStore } from './people.ts'
import type { RunCancels } from './run-cancels.ts'
import type { RunIntake } from './run-intake.ts'
import type { ReplanList, ReplanRequests } from './replans.ts'
import type { ScheduleStore } from './schedule-store.ts'
import type { ServiceAccountStore } from './service-accounts.ts'
import type { SecretStore, TenantKeyList, TenantKeyStore } from './secret-catalog.ts'
import type { WorkerCatalog } from './worker-catalog.ts'
import type { WorkflowStore } from './workflows.ts'
import type { KeyStore, TenantStore } from './tenants.ts'

/** For whom a transaction acts. */
export interface Access {
  readonly tenantId: string
  readonly dryRun: boolean
  /** Nothing will be written. */
  readonly readOnly: boolean
  /** Whose eyes see the answer; left out: nobody's who would wonder about one that is a little old. */
  readonly readerId?: string | undefined
  /** The answer may be a little old, and then comes from a replica; told how old at most. */
  readonly mayLag?: ((lagMs: number) => void) | undefined
  /** Who asks, for the audit; left out: Belfry itself. */
  readonly caller?: AuditCaller | undefined
}

export interface Catalog {
  /** One transaction as the tenant. */
  within<T>(access: Access, work: (tx: CatalogTx) => Promise<T>): Promise<T>
  /** This reader was told something as it is now; whatever it asks for next is no older. */
  readonly saw?: (readerId: string) => void
  /** One transaction that manages tenants and their keys, on behalf of `access.tenantId`. */
  withinPlatform<T>(access: Access, work: (tx: PlatformTx) => Promise<T>): Promise<T>
}

export interface CommonTx {
  /** Database time of this transaction, rounded down to the ms. */
  nowMs(): Promise<number>
  readonly idempotency: IdempotencyStore
  readonly audit: AuditTrail
}

export interface CatalogTx extends CommonTx {
  readonly jobs: JobStore
  readonly schedules: ScheduleStore
  readonly runs: RunCatalog
  readonly intake: RunIntake
  readonly cancels: RunCancels
  readonly deadLetters: DeadLetterStore
  readonly keys: KeyStore
  readonly members: MemberStore
  readonly personSessions: PersonSessionStore
  readonly serviceAccounts: ServiceAccountStore
  readonly backfills: BackfillStore
  readonly calendars: CalendarStore
  readonly limits: LimitStore
  readonly containerPolicy: OwnContainerPolicy
  readonly quotas: QuotaStore
  readonly explanations: ExplanationStore
  readonly replans: ReplanRequests
  readonly secrets: SecretStore
  readonly tenantKey: TenantKeyStore
  readonly workers: WorkerCatalog
  readonly demand: OwnDemand
  /** What roles in accounts of AWS must ask for before Belfry may assume them for this tenant. */
  readonly externalId: () => Promise<string>
  readonly workflows: WorkflowStore
  readonly auditLog: AuditReader
}

export interface PlatformTx extends CommonTx {
  readonly tenants: TenantStore
  readonly people: PeopleStore
  readonly containerPolicies: TenantContainerPolicies
  readonly quotas: TenantQuotas
  readonly replans: ReplanList
  readonly cluster: ClusterStore
  readonly tenantKeys: TenantKeyList
}

/** An answer as it is kept with an Idempotency-Key. */
export interface StoredAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: JsonValue
}

/** The same on its way there, its body as it was sent. */
export interface KeptAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly json: string
}

export interface IdempotencyKey {
  readonly apiKeyId: string
  readonly key: string
  /** SHA-256 of what was asked. */
  readonly fingerprint: Uint8Array
}

export interface IdempotencyStore {
  /**
   * Takes the key for this transaction, after waiting a moment for another that holds it. Answers what an
   * earlier one left: nothing (go on, then `keep`), or its fingerprint and answer. Throws
   * `idempotency_key_busy`.
   */
  begin(key: IdempotencyKey): Promise<{ fingerprint: Uint8Array; answer: StoredAnswer } | undefined>
  keep(key: IdempotencyKey, answer: KeptAnswer): void
}

export interface JobRecord {
  readonly id: string
  readonly name: string
  readonly description: string
  readonly version: number
  readonly definition: JobDefinition
  /** Null: no pause. */
  readonly paused: PauseRecord | null
  readonly createdAtMs: number
  readonly updatedAtMs: number
}

/** Of the handler what it calls. */
export interface JobSummaryRecord extends Omit<JobRecord, 'definition'> {
  readonly definition: Omit<JobDefinition, 'handler'> & {
    readonly handler: JobSummary['handler']
  }
}

export interface NewJob {
  readonly id: string
  readonly name: string
  readonly description: string
  readonly definition: JobDefinition
}

export interface JobStore {
  /** With its first version. Throws `name_taken`. */
  insert(job: NewJob): Promise<JobRecord>
  find(id: string): Promise<JobRecord | undefined>
  /** Locked until the end of the transaction. */
  lock(id: string): Promise<JobRecord | undefined>
  /** Held against deletion until the end of the transaction. */
  holdByName(name: string): Promise<JobRecord | undefined>
  /** Names of jobs, to say what was meant. */
  names(limit: number): Promise<readonly string[]>
  list(page: PageRequest, filter: { name: string | undefined }): Promise<readonly JobSummaryRecord[]>
  /** A new version. */
  update(id: string, change: { description: string; definition: JobDefinition }): Promise<JobRecord>
  remove(id: string): Promise<void>
  /** What uses it, in words: the schedule or the workflow, with its name. */
  userOf(id: string): Promise<string | undefined>
}

/**
 * What a run takes over from its job and tenant when it is made. The weight is 1 for every tenant so far: no
 * route sets it.
 */
export interface RunTemplate {
  readonly jobId: string
  readonly jobName: string
  readonly jobVersion: number
  readonly definition: JobDefinition
  /** Something may hold its runs, so they stand behind the gate (engine/gatekeeper.ts). */
  readonly limited: boolean
  readonly tenantWeight: number
}

/** Runs that have to end before another starts, and how. */
export interface Dependencies {
  readonly runIds: readonly string[]
  readonly rule: TriggerRule
}

export interface NewRun {
  readonly id: string
  readonly template: RunTemplate
  readonly scheduleId: string | null
  /** The planned time that it stands for, if any. */
  readonly scheduledForMs: number | null
  readonly source: RunSource
  readonly queue: string
  readonly priority: number
  readonly input: JsonValue | undefined
  readonly dueAtMs: number
  /** Null: no limit. */
  readonly startByMs: number | null
  readonly runDeadlineMs: number | null
  /**
   * `ready`: may start at once, with its place in the fair order. `delayed`: at `dueAtMs`. `waiting`: then,
   * or once the runs that it depends on have ended, whichever is later.
   */
  readonly start:
    | { readonly kind: 'ready'; readonly tag: number }
    | { readonly kind: 'delayed' }
    | ({ readonly kind: 'waiting' } & Dependencies)
  /** It is delayed, and takes further inputs until it is due. */
  readonly gathers?: 'debounce' | 'collect'
}

export interface AttemptRecord {
  readonly number: number
  readonly outcome: AttemptOutcome
  readonly startedAtMs: number
  readonly endedAtMs: number
  readonly errorCode: string | null
  readonly errorMessage: string | null
  readonly httpStatus: number | null
  readonly response: string | null
  readonly responseTruncated: boolean
  readonly responseHeaders: Readonly<Record<string, string>> | null
  /** Null where there is none. */
  readonly result: JsonValue
  readonly retryAtMs: number | null
  readonly sessionId: string | null
  readonly leaseEpoch: number
}

export interface RunSummaryRecord {
  readonly id: string
  readonly jobId: string
  readonly jobName: string
  readonly jobVersion: number
  readonly scheduleId: string | null
  readonly scheduledForMs: number | null
  readonly source: RunSource
  readonly state: RunState
  readonly reason: RunReason | null
  readonly queue: string
  readonly priority: number
  readonly delivery: JobDefinition['delivery']
  /** The service account as which it runs. */
  readonly runAs: string | null
  /** Attempts begun so far, the present one among them. */
  readonly attempts: number
  readonly maxAttempts: number
  readonly createdAtMs: number
  readonly dueAtMs: number
  readonly nextAttemptAtMs: number | null
  /** Null: no limit, or no longer of any meaning. */
  readonly startByMs: number | null
  readonly runDeadlineMs: number | null
  readonly startedAtMs: number | null
  readonly finishedAtMs: number | null
  readonly cancelRequested: boolean
}

/** The attempt that runs now. */
export interface PresentAttempt {
  readonly number: number
  readonly startedAtMs: number
  /** Null: no worker holds it, its target took it over. */
  readonly sessionId: string | null
  readonly awaited: AwaitedReport | null
  readonly leaseEpoch: number
  /** What it last said of its progress; null: nothing. */
  readonly progress: JsonValue
}

export interface RunRecord extends RunSummaryRecord {
  readonly input: JsonValue | undefined
  /** In the words of who canceled it; null: none were given. */
  readonly cancelReason: string | null
  /** The failed run that it replays, where that is still on record. */
  readonly replayOf: string | null
  /** The run that replays it. */
  readonly replayedAs: string | null
  /** The runs that it depends on, and how they ended. */
  readonly dependsOn: readonly Dependency[]
  /** Null: it depends on none. */
  readonly rule: TriggerRule | null
  /** Those that ended, newest first; as many as were asked for. */
  readonly attemptList: readonly AttemptRecord[]
  /** How many have ended in all. */
  readonly attemptsEnded: number
  readonly present: PresentAttempt | null
  /** The run that must end before this one may start; null: none. */
  readonly afterRunId: string | null
  /** Since when a limit or a pause may hold it; null: none does. */
  readonly heldSinceMs: number | null
  readonly retry: JobDefinition['retry']
  /** When this was read. */
  readonly nowMs: number
}

/**
 * Newest first: those that began before the one of number `before`. Number 0, the end of a run that waited,
 * is newest.
 */
export interface AttemptPageRequest {
  readonly before: number | null
  readonly limit: number
}

export interface RunFilter {
  readonly states: readonly RunState[] | undefined
  readonly jobId: string | undefined
  readonly scheduleId: string | undefined
  readonly backfillId: string | undefined
  /** Of its tasks, or of the one with this number. */
  readonly workflowRun?: { readonly id: string; readonly task: number | null } | undefined
  readonly createdAfterMs: number | null
  readonly createdBeforeMs: number | null
}

export interface RunCatalog {
  templateByJobId(jobId: string): Promise<RunTemplate | undefined>
  templateByJobName(name: string): Promise<RunTemplate | undefined>
  insert(run: NewRun): Promise<{ shard: number }>
  /** With a page of its attempts. */
  find(id: string, attempts: AttemptPageRequest): Promise<RunRecord | undefined>
  /** How it takes the inputs of further requests; undefined: it does not. */
  gathering(id: string): Promise<Gathering | undefined>
  list(page: PageRequest, filter: RunFilter): Promise<Found<RunSummaryRecord>>
  /** Id of the job of this name, or of the last one that had it. */
  jobIdOfName(name: string): Promise<string | undefined>
}
