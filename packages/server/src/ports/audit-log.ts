/**
 * The audit log: read as a list or as a chain by its tenant; made, signed, cut and sent on by the engine.
 * What is put into it, and by whom, stands in audit.ts.
 */
import type {
  AuditCheckpoint,
  AuditCut,
  AuditEntryView,
  AuditLink,
  AuditOutcome,
  AuditRecord,
} from '@belfry/contract'
import type { AuditSigner, ChainEnd, GoneEntries, UnsealedEntry } from '../domain/audit-links.ts'
import type { AuditCaller, AuditEntry } from './audit.ts'
import type { Found, PageRequest } from './paging.ts'

export interface AuditFilter {
  /** Id or name. */
  readonly actor: string | undefined
  /** An action, or the noun of several. */
  readonly action: string | undefined
  /** Id or name. */
  readonly subject: string | undefined
  readonly outcome: AuditOutcome | undefined
  readonly afterMs: number | null
  readonly beforeMs: number | null
}

export interface AuditState {
  readonly size: number
  /** Null: there is no chain yet. */
  readonly head: string | null
  readonly waiting: number
  readonly waitingSinceMs: number | null
  readonly signedSize: number
  readonly signedAtMs: number | null
  readonly publicKeys: readonly { readonly keyId: string; readonly publicKey: Uint8Array }[]
}

export interface AuditReader {
  list(page: PageRequest, filter: AuditFilter): Promise<Found<AuditEntryView>>
  state(): Promise<AuditState>
  /** The chain from behind a number on, oldest first. */
  chain(afterSeq: number, limit: number): Promise<readonly AuditLink[]>
  checkpoints(afterSize: number, toSize: number): Promise<readonly AuditCheckpoint[]>
  cuts(): Promise<readonly AuditCut[]>
}

/** What is put into the inbox. */
export interface PutEntry extends Omit<AuditEntry, 'tenantId'> {
  readonly tenantId: string
  readonly outcome: AuditOutcome
  /** Null unless it was refused. */
  readonly code: string | null
  readonly caller: AuditCaller
}

/** For what happened outside of a transaction of its own. */
export interface AuditInbox {
  put(entries: readonly PutEntry[]): Promise<void>
}

export interface AuditSealing {
  /**
   * Gives up to `limit` entries of the inbox their places, oldest first, in one transaction that holds the
   * ends of their chains. `linksOf` makes the links behind an end. Answers how many.
   */
  seal(
    limit: number,
    linksOf: (end: ChainEnd, entries: readonly UnsealedEntry[], sealedAt: string) => readonly AuditLink[],
  ): Promise<number>
  /** Signs the ends of chains that are due. Answers how many. */
  sign(
    due: { readonly waitMs: number; readonly entries: number; readonly limit: number },
    signer: { readonly keyId: string; readonly checkpointOf: (end: ChainEnd, at: string) => AuditCheckpoint },
  ): Promise<number>
  /** Whether entries wait for their place, and whether ends of chains are not signed. */
  look(): Promise<{ readonly waiting: boolean; readonly unsigned: boolean }>
  noteKey(signer: Pick<AuditSigner, 'keyId' | 'publicKey'>): Promise<void>
  /** First days of months of which all is older than so many days, oldest first. */
  oldMonths(days: number): Promise<readonly string[]>
  /** Takes a month away from the beginning of all chains, and puts on record what that was. */
  cutMonth(
    month: string,
    signer: {
      readonly keyId: string
      readonly cutOf: (gone: GoneEntries, at: string) => AuditCut
    },
  ): Promise<void>
}

export interface AuditExports {
  /**
   * Chains that have not left for this place whole, and the last number that has. `signedOnly`: as far as
   * they are signed. In the order of their tenants, those behind `after`.
   */
  behind(
    sink: string,
    signedOnly: boolean,
    page: { readonly after: string | null; readonly limit: number },
  ): Promise<readonly { readonly tenantId: string; readonly seq: number; readonly upTo: number }[]>
  /** Entries in order, with the checkpoints and, at the beginning, the cuts among them. */
  page(tenantId: string, afterSeq: number, upTo: number, limit: number): Promise<readonly AuditRecord[]>
  note(sink: string, tenantId: string, seq: number): Promise<void>
}

/** A place that takes records and never gives them back to be changed. */
export interface AuditSink {
  /** Under which it is noted how far records have left: `file:<path>`, `kafka:<prefix>`. */
  readonly name: string
  /** False: it is away, and nothing is tried. */
  readonly up: boolean
  /** Resolves when it holds them for good. They may come again. */
  write(records: readonly AuditRecord[]): Promise<void>
}
