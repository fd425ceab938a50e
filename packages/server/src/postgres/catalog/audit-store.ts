/**
 * The audit in a transaction of the catalog: entries that leave for the inbox with the COMMIT, and the log as
 * its tenant reads it. A list looks at a bounded stretch a page.
 */
import type { AuditTrail } from '../../ports/audit.ts'
import { ownCaller } from '../../ports/audit.ts'
import type { AuditReader } from '../../ports/audit-log.ts'
import type { Access } from '../../ports/catalog.ts'
import { checkpointRecord, columnsOfEntry, cutRecord, entryOf, linkOf } from '../audit-rows.ts'
import type { Transaction } from '../database.ts'
import {
  listAudit,
  listAuditKeys,
  putAudit,
  readAuditChain,
  readAuditCheckpoints,
  readAuditCuts,
  readAuditStatus,
} from '../statements/audit.ts'
import { idFloor, idMarginMs } from './id-ranges.ts'
import { isoOrNull, lastId, msOrNull, only } from './values.ts'

/** Entries that one page looks at, where a filter is given. */
const stretch = 10_000

export function createAuditTrail(tx: Transaction, { tenantId, caller }: Access): AuditTrail {
  return {
    record(entry) {
      const columns = columnsOfEntry({
        tenantId,
        ...entry,
        outcome: 'done',
        code: null,
        caller: caller ?? ownCaller('belfry'),
      })
      tx.atEnd(putAudit, [JSON.stringify([columns])])
    },
  }
}

export function createAuditReader(tx: Transaction, tenantId: string): AuditReader {
  return {
    async list({ beforeId, limit }, filter) {
      const { actor, action, subject, outcome, afterMs, beforeMs } = filter
      const before = beforeMs === null ? lastId : idFloor(beforeMs + idMarginMs)
      const cursor = beforeId ?? lastId
      const passes = [actor ?? null, action ?? null, subject ?? null, outcome ?? null] as const
      const rows = await tx.query(listAudit, [
        cursor < before ? cursor : before,
        afterMs === null ? idFloor(0) : idFloor(afterMs - idMarginMs),
        isoOrNull(afterMs) ?? '-infinity',
        isoOrNull(beforeMs) ?? 'infinity',
        Math.max(limit, stretch),
        limit,
        ...passes,
      ])
      const found = rows.filter((row) => row.id !== null)
      const items = found.map((row) => ({ ...entryOf(row), seq: row.seq === null ? null : Number(row.seq) }))
      return { items, lookedTo: items.length >= limit ? null : (rows.find(isMark)?.looked_to ?? null) }
    },
    async state() {
      const [status, keys] = await Promise.all([tx.query(readAuditStatus, []), tx.query(listAuditKeys, [])])
      const row = only(status)
      return {
        size: Number(row.size),
        head: row.hash?.toString('hex') ?? null,
        waiting: Number(row.waiting),
        waitingSinceMs: msOrNull(row.waiting_since),
        signedSize: Number(row.signed_size),
        signedAtMs: msOrNull(row.signed_at),
        publicKeys: keys.map((key) => ({ keyId: key.key_id, publicKey: key.public_key })),
      }
    },
    chain: async (afterSeq, limit) =>
      (await tx.query(readAuditChain, [tenantId, afterSeq, limit])).map(linkOf),
    checkpoints: async (afterSize, toSize) =>
      (await tx.query(readAuditCheckpoints, [tenantId, afterSize, toSize])).map(checkpointRecord),
    cuts: async () => (await tx.query(readAuditCuts, [tenantId])).map(cutRecord),
  }
}

/** The row that says where the look ended. */
const isMark = ({ id }: { readonly id: string | null }): boolean => id === null
