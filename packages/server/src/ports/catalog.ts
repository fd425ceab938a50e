/**
 * What the API reads and writes. Each request is one transaction for one tenant; whatever it does happens
 * whole or not at all, a dry run does everything and then takes it back. Stores say nothing about HTTP and
 * decide nothing: they answer `undefined` for what this tenant does not have. Instants are epoch ms; `nowMs`
 * is always the database's.
 */
import type {
  AttemptOutcome,
  FunctionHandlerDefinition,
  HttpHandlerDefinition,
  JobDefinition,
  JsonValue,
  OccurrenceOutcome,
  OccurrenceReason,
  RunReason,
  RunSource,
  RunState,
  Schedule,
  ScheduleState,
  Scope,
} from '@belfry/contract'
import type { PlannedTime } from '../domain/firing.ts'
import type { StoredSpec } from '../domain/stored-spec.ts'
import type { WorkerCatalog } from './worker-catalog.ts'

/** For whom a transaction acts. */
export interface Access {
  readonly tenantId: string
  readonly dryRun: boolean
  /** Nothing will be written. */
  readonly readOnly: boolean
}

export interface Catalog {
  /** One transaction as the tenant. */
  within<T>(access: Access, work: (tx: CatalogTx) => Promise<T>): Promise<T>
  /** One transaction that manages tenants and their keys, on behalf of `access.tenantId`. */
  withinPlatform<T>(access: Access, work: (tx: PlatformTx) => Promise<T>): Promise<T>
}

export interface CommonTx {
  /** Database time of this transaction, rounded down to the ms. */
  nowMs(): Promise<number>
  readonly idempotency: IdempotencyStore
}

export interface CatalogTx extends CommonTx {
  readonly jobs: JobStore
  readonly schedules: ScheduleStore
  readonly runs: RunCatalog
  readonly keys: KeyStore
  readonly workers: WorkerCatalog
}

export interface PlatformTx extends CommonTx {
  readonly tenants: TenantStore
}

/** A page of a list, newest first: what has an id below `beforeId`, at most `limit`. */
export interface PageRequest {
  readonly beforeId: string | null
  readonly limit: number
}

/**
 * What was found in a bounded stretch of a list: few things may pass a filter, and no call walks a whole
 * history for them.
 */
export interface Found<Item, Position = string> {
  readonly items: readonly Item[]
  /** Down to here everything was looked at, and there may be more below; null: to the end of the list. */
  readonly lookedTo: Position | null
}

/** An answer as it is kept with an Idempotency-Key. */
export interface StoredAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: JsonValue
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
  keep(key: IdempotencyKey, answer: StoredAnswer): Promise<void>
}

export interface TenantRecord {
  readonly id: string
  readonly name: string
  readonly createdAtMs: number
}

export interface KeyRecord {
  readonly id: string
  readonly name: string
  readonly queues: readonly string[] | null
  readonly prefix: string
  readonly scopes: readonly Scope[]
  readonly createdAtMs: number
  readonly expiresAtMs: number | null
  readonly revokedAtMs: number | null
  readonly lastUsedAtMs: number | null
}

export interface NewKey {
  readonly id: string
  readonly name: string
  /** Queues that a worker with it may serve; null: every one. */
  readonly queues: readonly string[] | null
  readonly prefix: string
  readonly secretHash: Uint8Array
  readonly scopes: readonly Scope[]
  readonly expiresAtMs: number | null
}

export interface TenantStore {
  /** Throws `name_taken`. */
  insert(tenant: { id: string; name: string }): Promise<TenantRecord>
  list(page: PageRequest): Promise<readonly TenantRecord[]>
  findByName(name: string): Promise<TenantRecord | undefined>
  /** A key for any tenant. Throws `name_taken`. */
  insertKey(tenantId: string, key: NewKey): Promise<KeyRecord>
}

export interface KeyStore {
  /** Throws `name_taken`. */
  insert(key: NewKey): Promise<KeyRecord>
  list(page: PageRequest): Promise<readonly KeyRecord[]>
  /** Revoked from now on; one that was revoked before keeps its time. */
  revoke(id: string): Promise<KeyRecord | undefined>
}

export interface JobRecord {
  readonly id: string
  readonly name: string
  readonly description: string
  readonly version: number
  readonly definition: JobDefinition
  readonly createdAtMs: number
  readonly updatedAtMs: number
}

/** Without headers and body of the handler. */
export interface JobSummaryRecord extends Omit<JobRecord, 'definition'> {
  readonly definition: Omit<JobDefinition, 'handler'> & {
    readonly handler: Pick<HttpHandlerDefinition, 'kind' | 'url' | 'method'> | FunctionHandlerDefinition
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
  /** Name of a schedule that uses it. */
  userOf(id: string): Promise<string | undefined>
}

export type CatchUp = Schedule['catchUp']

/** What a person can set, beside the name. */
export interface ScheduleSettings {
  readonly description: string
  readonly spec: StoredSpec
  readonly zone: string
  readonly zoneDataVersion: string
  readonly startAtMs: number | null
  readonly endAtMs: number | null
  readonly jitterMs: number
  readonly catchUp: CatchUp
  readonly overlap: 'skip' | 'allow'
  /** Undefined: no input, which differs from the JSON value null. */
  readonly input: JsonValue | undefined
}

export interface ScheduleRecord extends ScheduleSettings {
  readonly id: string
  readonly name: string
  readonly jobId: string
  readonly jobName: string
  readonly state: ScheduleState
  readonly pausedReason: string | null
  readonly pausedAtMs: number | null
  readonly gen: number
  readonly version: number
  readonly createdAtMs: number
  readonly updatedAtMs: number
  readonly next: PlannedTime | null
}

export type ScheduleSummaryRecord = Omit<ScheduleRecord, 'input'>

export interface NewSchedule {
  readonly id: string
  readonly name: string
  readonly jobId: string
  readonly settings: ScheduleSettings
  readonly first: PlannedTime
}

/**
 * `keep`: the timer is not touched. `set`: it is moved or made. `drop`: it goes. The last two make a new
 * generation.
 */
export type TimerChange =
  | { readonly kind: 'keep' }
  | { readonly kind: 'set'; readonly next: PlannedTime }
  | { readonly kind: 'drop' }

export interface ScheduleChange {
  readonly settings: ScheduleSettings
  readonly state: ScheduleState
  readonly pausedReason: string | null
  readonly timer: TimerChange
}

export interface ScheduleStore {
  /** With its timer. Throws `name_taken`. */
  insert(schedule: NewSchedule): Promise<void>
  find(id: string): Promise<ScheduleRecord | undefined>
  /** Locked until the end of the transaction, together with its timer. Throws `serialization_conflict`. */
  lock(id: string): Promise<ScheduleRecord | undefined>
  list(
    page: PageRequest,
    filter: { name: string | undefined; state: ScheduleState | undefined; jobId: string | undefined },
  ): Promise<Found<ScheduleSummaryRecord>>
  /** Writes what changed and counts `version`, and `gen` where the timer changes. */
  change(id: string, change: ScheduleChange): Promise<void>
  /** Soft: its history stays. */
  remove(id: string): Promise<void>
  /** True also for a schedule that was deleted and left its history. */
  everExisted(id: string): Promise<boolean>
  /** Newest first, planned before `beforeMs`. */
  occurrences(
    id: string,
    page: { beforeMs: number | null; limit: number },
    filter: { outcome: OccurrenceOutcome | undefined; fromMs: number | null; toMs: number | null },
  ): Promise<Found<OccurrenceRecord, number>>
}

export interface OccurrenceRecord {
  readonly scheduleId: string
  readonly scheduledForMs: number
  readonly outcome: OccurrenceOutcome
  readonly reason: OccurrenceReason | null
  readonly missedCount: number
  readonly runId: string | null
  readonly dueAtMs: number
  readonly firedAtMs: number
}

/**
 * What a run takes over from its job and tenant when it is made. The weight is 1 for every tenant so far: no
 * route sets it.
 */
export interface RunTemplate {
  readonly jobId: string
  readonly jobVersion: number
  readonly definition: JobDefinition
  readonly tenantWeight: number
}

export interface NewRun {
  readonly id: string
  readonly template: RunTemplate
  readonly scheduleId: string | null
  readonly source: RunSource
  readonly queue: string
  readonly priority: number
  readonly input: JsonValue | undefined
  readonly dueAtMs: number
  /** `ready`: may start at once, with its place in the fair order. `delayed`: at `dueAtMs`. */
  readonly start: { readonly kind: 'ready'; readonly tag: number } | { readonly kind: 'delayed' }
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
  /** Attempts begun so far, the present one among them. */
  readonly attempts: number
  readonly maxAttempts: number
  readonly createdAtMs: number
  readonly dueAtMs: number
  readonly nextAttemptAtMs: number | null
  readonly startedAtMs: number | null
  readonly finishedAtMs: number | null
  readonly cancelRequested: boolean
}

/** The attempt that runs now. */
export interface PresentAttempt {
  readonly number: number
  readonly startedAtMs: number
  readonly sessionId: string
  readonly leaseEpoch: number
  /** What it last said of its progress; null: nothing. */
  readonly progress: JsonValue
}

export interface RunRecord extends RunSummaryRecord {
  readonly input: JsonValue | undefined
  /** Those that ended, newest first; as many as were asked for. */
  readonly attemptList: readonly AttemptRecord[]
  /** How many have ended in all. */
  readonly attemptsEnded: number
  readonly present: PresentAttempt | null
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
  readonly createdAfterMs: number | null
  readonly createdBeforeMs: number | null
}

export interface RunCatalog {
  templateByJobId(jobId: string): Promise<RunTemplate | undefined>
  templateByJobName(name: string): Promise<RunTemplate | undefined>
  insert(run: NewRun): Promise<{ shard: number }>
  /** With a page of its attempts. */
  find(id: string, attempts: AttemptPageRequest): Promise<RunRecord | undefined>
  list(page: PageRequest, filter: RunFilter): Promise<Found<RunSummaryRecord>>
  /** Id of the job of this name, or of the last one that had it. */
  jobIdOfName(name: string): Promise<string | undefined>
  /** Ends a run that waits, now or later; false where it does not. */
  cancelWaiting(id: string): Promise<boolean>
  /** Notes that the cancel of a running run was asked for; answers the session that runs it. */
  requestCancel(id: string): Promise<string | undefined>
}
