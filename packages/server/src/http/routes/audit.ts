/**
 * Endpoints of the audit log. What is exported is the
 * chain as it is; nothing here judges it.
 */
import { makeCursor, readCursor, readWhole } from '../cursor.ts'
import type { Endpoints } from '../endpoint.ts'
import { pageById } from '../page.ts'

const msOrNull = (instant: string | undefined): number | null =>
  instant === undefined ? null : Date.parse(instant)

export const auditEndpoints: Pick<Endpoints, 'auditList' | 'auditStatus' | 'auditExport'> = {
  auditList: {
    as: 'tenant',
    async answer({ tx, query, credential }) {
      const { limit, cursor, after, before, actor, action, subject, outcome } = query
      const filter = { actor, action, subject, outcome, afterMs: msOrNull(after), beforeMs: msOrNull(before) }
      const scope = { list: 'audit', tenantId: credential.tenantId, filter }
      const read = (page: { beforeId: string | null; limit: number }) => tx.auditLog.list(page, filter)
      return { body: await pageById(scope, { limit, cursor }, read, (entry) => entry) }
    },
  },
  auditStatus: {
    as: 'tenant',
    async answer({ tx }) {
      const { waitingSinceMs, signedAtMs, publicKeys, ...state } = await tx.auditLog.state()
      const iso = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString())
      const keys = publicKeys.map(({ keyId, publicKey }) => ({
        keyId,
        publicKey: Buffer.from(publicKey).toString('base64'),
      }))
      const times = { waitingSince: iso(waitingSinceMs), signedAt: iso(signedAtMs) }
      return { body: { ...state, ...times, publicKeys: keys } }
    },
  },
  auditExport: {
    as: 'tenant',
    async answer({ tx, query: { limit, cursor }, credential }) {
      const scope = { list: 'audit_chain', tenantId: credential.tenantId, filter: {} }
      const from = readCursor(scope, cursor, readWhole) ?? 0
      const links = await tx.auditLog.chain(from, limit + 1)
      const items = links.slice(0, limit)
      const last = items.at(-1)?.seq ?? from
      const more = links.length > limit
      // behind the last page also those of entries that are gone: they say that there were more
      const upTo = more ? last : Number.MAX_SAFE_INTEGER
      const [checkpoints, cuts] = await Promise.all([
        tx.auditLog.checkpoints(from, upTo),
        from === 0 ? tx.auditLog.cuts() : [],
      ])
      const nextCursor = more ? makeCursor(scope, last) : null
      return { body: { items, checkpoints: [...checkpoints], cuts: [...cuts], nextCursor } }
    },
  },
}
