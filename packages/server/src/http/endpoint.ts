/**
 * The shape of what answers a route: a function from a checked call, inside one transaction, to an answer. It
 * knows no HTTP beyond that; the registry does the rest (credentials, idempotency, dry run, headers, effects
 * after the commit).
 */
import type {
  EngineEvents,
  JobDefinition,
  JsonValue,
  LambdaAccess,
  RouteName,
  RunSource,
  routes,
} from '@belfry/contract'
import type { z } from 'zod'
import type { LambdaPolicy } from '../domain/lambda-policy.ts'
import type { FairTags } from '../engine/fair-tags.ts'
import type { ContainerPolicy } from '../domain/container/container-policy.ts'
import type { QuotaKeeper } from '../engine/quotas/quota-keeper.ts'
import type { RunWatcher } from '../engine/run-watcher.ts'
import type { WorkerGate } from '../engine/workers/worker-gate.ts'
import type { AuditDetails } from '../ports/audit.ts'
import type { CatalogTx, PlatformTx } from '../ports/catalog.ts'
import type { Credential, KeyMint } from '../ports/credentials.ts'
import type { Hint } from '../ports/hints.ts'
import type { Ids } from '../ports/ids.ts'
import type { Vault } from '../ports/secrets.ts'
import type { ZoneSource } from '../ports/zones.ts'
import type { FastifyRequest } from 'fastify'
import type { TokenMint, Visitor } from '../ports/people.ts'
import type { CallbackDesk } from './callback-desk.ts'
import type { OpenStream } from './open-streams.ts'
import type { PeopleDoor } from './people-door.ts'
import type { SessionCookies } from './session-cookies.ts'

type PartOf<Name extends RouteName, Part extends string> = (typeof routes)[Name] extends {
  readonly [key in Part]: infer Schema extends z.ZodType
}
  ? z.output<Schema>
  : undefined

export type BodyOf<Name extends RouteName> = PartOf<Name, 'body'>
export type QueryOf<Name extends RouteName> = PartOf<Name, 'query'>
export type ParamsOf<Name extends RouteName> = PartOf<Name, 'params'>
export type ResponseOf<Name extends RouteName> = PartOf<Name, 'response'>

/** What this installation may call of AWS Lambda, and as whom it assumes roles. */
export type LambdaFacts = LambdaPolicy & Pick<LambdaAccess, 'enabled' | 'principal'>

/** What every endpoint may lean on. */
export interface Tools {
  /** Of Belfry. */
  readonly version: string
  readonly ids: Ids
  readonly tags: Pick<FairTags, 'next' | 'ready'>
  readonly mint: KeyMint
  readonly vault: Vault
  /** Makes the links of invitations. */
  readonly invites: TokenMint
  /** Undefined: this server keeps no session in a browser. */
  readonly cookies: SessionCookies | undefined
  readonly zones: ZoneSource
  /** Days of history that are kept. */
  readonly retentionDays: number
  readonly quotas: Pick<QuotaKeeper, 'defaults'>
  readonly lambda: LambdaFacts
  /** What containers may be, of tenants that have nothing of their own. */
  readonly containers: ContainerPolicy
  /** Throws `invalid_target`. */
  readonly checkTarget: (handler: JobDefinition['handler']) => void
}

/** What is made known after the commit, and never after a dry run. */
export type Effect =
  | { readonly kind: 'hint'; readonly hint: Hint }
  | { readonly kind: 'enqueued'; readonly count: number; readonly queue: string; readonly source: RunSource }
  /** Planned times that were decided within the request. */
  | { readonly kind: 'fired'; readonly outcomes: EngineEvents['occurrences_fired']['outcomes'] }
  | { readonly kind: 'key_revoked'; readonly keyId: string }
  /** Disabled, or given another role: what is remembered of its keys is out of date. */
  | { readonly kind: 'principal_changed'; readonly principalId: string }
  | { readonly kind: 'quotas_set'; readonly tenantId: string }

/** What was asked, checked, before a transaction is open. */
export interface Asked<Name extends RouteName> {
  readonly credential: Credential
  readonly params: ParamsOf<Name>
  readonly query: QueryOf<Name>
  readonly body: BodyOf<Name>
  readonly ifMatch: string | undefined
}

export interface Call<Name extends RouteName, Tx> extends Asked<Name> {
  readonly tx: Tx
  readonly tools: Tools
  readonly after: (effect: Effect) => void
}

export interface WorkerCall<Name extends RouteName> extends Asked<Name> {
  readonly gate: WorkerGate
  /** Fires when the caller has gone. */
  readonly signal: AbortSignal
}

/** What a route without a credential may lean on. */
export interface PublicServices {
  /** Undefined where people cannot sign in: in a Belfry inside a program. */
  readonly people: PeopleDoor | undefined
  readonly callbacks: CallbackDesk
  /** For what a transaction of its own has changed. */
  readonly makeKnown: (effect: Effect) => void
}

export interface PublicCall<Name extends RouteName> extends Omit<Asked<Name>, 'credential' | 'ifMatch'> {
  readonly request: FastifyRequest
  readonly visitor: Visitor
  readonly services: PublicServices
}

/** Of a known caller, outside of any transaction: for what takes long. */
export interface PersonCall<Name extends RouteName> extends Omit<PublicCall<Name>, 'request'> {
  readonly credential: Credential
}

export interface PublicAnswer<Name extends RouteName> {
  readonly body: ResponseOf<Name>
  readonly headers?: Readonly<Record<string, string | string[]>>
}

/** Of a run that is followed, outside of any transaction. */
export interface WatchCall<Name extends RouteName> extends Asked<Name> {
  /** One transaction as the tenant, that only reads. */
  readonly within: <T>(work: (tx: CatalogTx) => Promise<T>) => Promise<T>
  readonly watcher: RunWatcher
  /** Fires when the caller has gone. */
  readonly signal: AbortSignal
}

export interface StreamCall<Name extends RouteName> extends WatchCall<Name> {
  readonly lastEventId: string | undefined
  /** Takes a place among the open streams; throws `too_many_requests`. */
  readonly open: () => OpenStream
  readonly heartbeatMs: number
}

/** Events as they are written, from when they are asked for until the stream ends. */
export interface StreamAnswer {
  readonly stream: OpenStream
  readonly events: AsyncGenerator<string, void>
}

export interface Answer<Name extends RouteName> {
  readonly body: ResponseOf<Name>
  /** Of a resource that can be changed under a precondition. */
  readonly version?: number
  /** Path of what was made. */
  readonly location?: string
  /** Nothing was made: it is part of something that was there. Answered with the route's `joinedStatus`. */
  readonly joined?: boolean
  /** Sent with this answer, and never kept. */
  readonly headers?: Readonly<Record<string, string>>
  /** What an Idempotency-Key keeps instead of the body, where that holds a secret. */
  readonly keptBody?: JsonValue
  /** What the audit says besides: names, ids and counts, never values. */
  readonly audited?: {
    readonly subjectId?: string
    readonly subjectName?: string
    readonly details?: AuditDetails
    /** Another tenant that it was done to, in whose log it stands as well. */
    readonly alsoIn?: string
  }
}

type AsTenant<Name extends RouteName> = {
  readonly as: 'tenant'
  readonly answer: (call: Call<Name, CatalogTx>) => Promise<Answer<Name>>
  /** Asks for what `answer` will read in any case: that travels with the first packet. Must not throw. */
  readonly ahead?: (call: Pick<Call<Name, CatalogTx>, 'tx' | 'body'>) => void
}
type AsPlatform<Name extends RouteName> = {
  readonly as: 'platform'
  readonly answer: (call: Call<Name, PlatformTx>) => Promise<Answer<Name>>
}
/** Outside of any transaction: it may wait for long. */
type AsWorker<Name extends RouteName> = {
  readonly as: 'worker'
  readonly answer: (call: WorkerCall<Name>) => Promise<Answer<Name>>
}
/** Outside of any transaction, until a run moves on. */
type AsWaiting<Name extends RouteName> = {
  readonly as: 'waiting'
  readonly answer: (call: WatchCall<Name>) => Promise<Answer<Name>>
}
type AsStream<Name extends RouteName> = {
  readonly as: 'stream'
  readonly answer: (call: StreamCall<Name>) => Promise<StreamAnswer>
}
/** Without a credential: it proves in its own way who calls, or what it answers is for all. */
type AsPublic<Name extends RouteName> = {
  readonly as: 'public'
  readonly answer: (call: PublicCall<Name>) => Promise<PublicAnswer<Name>>
}
/** As a public one, of a caller who is known. */
type AsPerson<Name extends RouteName> = {
  readonly as: 'person'
  readonly answer: (call: PersonCall<Name>) => Promise<PublicAnswer<Name>>
}
type InTransaction<Name extends RouteName> = AsTenant<Name> | AsPlatform<Name>

/** Before the transaction of a call is open: for what must not be waited for within one. */
export interface Before {
  readonly tools: Tools
  /** Looks, in a short transaction of its own that only reads. */
  readonly lookWithin: <T>(work: (tx: CatalogTx) => Promise<T>) => Promise<T>
  readonly lookWithinPlatform: <T>(work: (tx: PlatformTx) => Promise<T>) => Promise<T>
}

/** Chosen call by call, before a transaction is open. */
type Chosen<Name extends RouteName> = {
  readonly as: 'chosen'
  readonly choose: (asked: Asked<Name>, before: Before) => InTransaction<Name> | Promise<InTransaction<Name>>
}

export type Endpoint<Name extends RouteName> =
  | AsTenant<Name>
  | AsPlatform<Name>
  | AsWorker<Name>
  | AsWaiting<Name>
  | AsStream<Name>
  | AsPublic<Name>
  | AsPerson<Name>
  | Chosen<Name>

/** One for each route of the contract. */
export type Endpoints = { readonly [Name in RouteName]: Endpoint<Name> }
