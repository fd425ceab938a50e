/**
 * The audit: who did what, on record. Three ways in, one form of entry:
 *
 *   AuditTrail   inside a transaction of the catalog (`tx.audit`): stored with the work, or neither is. The
 *                registry records every call of an audited route (contract: audit-table.ts) by itself; an
 *                endpoint records only what its call does besides that.
 *   AuditNotes   outside of any transaction: refusals, and what the engine denies at run time. Batched, the
 *                same entry within a minute once, so many a minute for each tenant and no more; what was left
 *                out is counted in the next entry.
 *   ports/audit-log.ts   what the sealer makes of both: the chain of each tenant.
 *
 * No entry ever holds a value of a secret, an input, an output or a body: only names, ids, versions, counts.
 */
import type { AuditActorKind, AuditOutcome, AuditSubjectKind, ErrorCode } from '@belfry/contract'

/** `noun.verb`. */
export type AuditAction = `${string}.${string}`

/** From the credential, never from what a caller says of itself. */
export interface AuditActor {
  readonly kind: AuditActorKind
  /** Of the key, the person or the service account; null: of Belfry itself. */
  readonly id: string | null
  readonly name: string
}

/** Who calls, and from where. */
export interface AuditCaller {
  readonly actor: AuditActor
  /** The API key or session that was used, where that is not the actor itself. */
  readonly keyId: string | null
  readonly address: string | null
  readonly requestId: string | null
  /** When the caller says that it is (its `Date` header), ms; kept apart from the time of the server. */
  readonly claimedAtMs: number | null
}

/** Belfry itself; `part` says which one. */
export const ownCaller = (part: string): AuditCaller => ({
  actor: { kind: 'system', id: null, name: part },
  keyId: null,
  address: null,
  requestId: null,
  claimedAtMs: null,
})

export interface AuditSubject {
  readonly kind: AuditSubjectKind
  readonly id: string | null
  readonly name: string | null
}

/** Names, ids, versions and counts; never values. */
export type AuditDetails = Readonly<Record<string, string | number | boolean | readonly string[]>>

export interface AuditEntry {
  readonly action: AuditAction
  readonly subject: AuditSubject
  readonly details?: AuditDetails
  /** Whose chain it stands in. Default: the caller's tenant. Another needs `PlatformTx`. */
  readonly tenantId?: string
}

export interface AuditTrail {
  /** Stored with the COMMIT of this transaction; if that fails, so does the work. Nothing in a dry run. */
  record(entry: AuditEntry): void
}

/** What happened outside of a transaction. */
export interface AuditNote extends Omit<AuditEntry, 'tenantId'> {
  readonly tenantId: string
  readonly outcome: AuditOutcome
  /** Why it was refused. */
  readonly code?: ErrorCode | (string & {})
  /** Left out: Belfry itself (`by` says which part). */
  readonly caller?: AuditCaller
  /** `worker`, `scheduler`…: the part of Belfry that notes it, where there is no caller. */
  readonly by?: string
}

export interface AuditNotes {
  /** Returns at once and never throws. */
  note(note: AuditNote): void
}
