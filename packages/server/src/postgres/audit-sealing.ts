/**
 * The audit as belfry_engine works on it: the inbox emptied into the chains, ends signed, months cut, records
 * read for export. Each is one transaction, so a crash leaves the chain as it was or as it should be.
 */
import type { ChainEnd } from '../domain/audit-links.ts'
import type { AuditExports, AuditInbox, AuditSealing } from '../ports/audit-log.ts'
import {
  checkpointRecord,
  columnsOfEntry,
  columnsOfLink,
  cutRecord,
  linkOf,
  unsealedOf,
} from './audit-rows.ts'
import type { Database, Transaction } from './database.ts'
import { putAudit, readAuditChain, readAuditCheckpoints, readAuditCuts } from './statements/audit.ts'
import {
  appendAudit,
  type AuditHeadRow,
  dropAuditMonth,
  endsOfAuditMonth,
  findUnexported,
  lockAuditHeads,
  lockSealing,
  lockUnsignedHeads,
  lookAtAudit,
  makeAuditHeads,
  makeAuditPartition,
  moveAuditHeads,
  noteAuditKey,
  noteExported,
  oldAuditMonths,
  putAuditCheckpoints,
  putAuditCuts,
  readAuditBacklog,
  takeAudit,
} from './statements/audit-sealing.ts'
import { readNow } from './statements/idempotency.ts'

const engine = { role: 'belfry_engine' } as const
export interface AuditLag {
  /** Entries without a place, over all tenants. */
  readonly waiting: number
  readonly waitingMs: number
  readonly unsignedChains: number
}

/** It waits for whoever reads the month. */
const cutting = { ...engine, timeoutMs: 60_000 } as const

export function createPostgresAuditInbox(db: Database): AuditInbox {
  return {
    async put(entries) {
      await db.run(engine, putAudit, [JSON.stringify(entries.map(columnsOfEntry))])
    },
  }
}

export async function readAuditLag(db: Database): Promise<AuditLag> {
  const [row] = await db.run({ ...engine, readOnly: true }, readAuditBacklog, [])
  return {
    waiting: Number(row?.waiting ?? 0),
    waitingMs: Math.max(0, Math.round(row?.waiting_ms ?? 0)),
    unsignedChains: Number(row?.unsigned ?? 0),
  }
}

export function createPostgresAuditSealing(db: Database): AuditSealing {
  return {
    seal: createSealing(db),
    sign: ({ waitMs, entries, limit }, { keyId, checkpointOf }) =>
      db.transaction(engine, async (tx) => {
        const [nowMs, heads] = await Promise.all([
          readNowMs(tx),
          tx.query(lockUnsignedHeads, [waitMs, entries, limit]),
        ])
        if (heads.length === 0) return 0
        const at = new Date(nowMs).toISOString()
        const points = heads.map((head) => checkpointOf(endOf(head), at))
        const columns = [
          points.map((point) => point.tenantId),
          points.map((point) => point.size),
          points.map((point) => point.head),
          points.map((point) => point.signature),
        ] as const
        await tx.query(putAuditCheckpoints, [...columns, at, keyId])
        return points.length
      }),
    async look() {
      const [row] = await db.run({ ...engine, readOnly: true }, lookAtAudit, [])
      return { waiting: row?.waiting ?? false, unsigned: row?.unsigned ?? false }
    },
    async noteKey({ keyId, publicKey }) {
      await db.run(engine, noteAuditKey, [keyId, publicKey])
    },
    oldMonths: async (days) => (await db.run(engine, oldAuditMonths, [days])).map(({ month }) => month),
    cutMonth: (month, { keyId, cutOf }) =>
      db.transaction(cutting, async (tx) => {
        const [nowMs, ends] = await Promise.all([readNowMs(tx), tx.query(endsOfAuditMonth, [month])])
        const at = new Date(nowMs).toISOString()
        const cuts = ends.map(({ tenant_id: tenantId, seq, hash }) =>
          cutOf({ tenantId, lastSeq: Number(seq), hash: hash.toString('hex') }, at),
        )
        const columns = [
          cuts.map((cut) => cut.tenantId),
          cuts.map((cut) => cut.firstSeq),
          cuts.map((cut) => cut.previousHash),
          cuts.map((cut) => cut.signature),
        ] as const
        await tx.query(putAuditCuts, [...columns, at, keyId])
        await tx.query(dropAuditMonth, [month])
      }),
  }
}

function createSealing(db: Database): AuditSealing['seal'] {
  /** Months that have a partition for sure. */
  const months = new Set<string>()
  return async (limit, linksOf) => {
    const used: string[] = []
    const count = await db.transaction(engine, async (tx) => {
      const [, nowMs, taken] = await Promise.all([
        tx.query(lockSealing, []),
        readNowMs(tx),
        tx.query(takeAudit, [limit]),
      ])
      if (taken.length === 0) return 0
      const entries = taken.map(unsealedOf).sort((a, b) => (a.id < b.id ? -1 : 1))
      const byTenant = Map.groupBy(entries, ({ tenantId }) => tenantId)
      const tenantIds = [...byTenant.keys()]
      const [, heads] = await Promise.all([
        tx.query(makeAuditHeads, [tenantIds]),
        tx.query(lockAuditHeads, [tenantIds]),
      ])
      const links = heads.map((head) =>
        linksOf(endOf(head), byTenant.get(head.tenant_id) ?? [], sealedAtOf(head, nowMs)),
      )
      for (const [first] of links) {
        const month = first?.sealedAt.slice(0, 7) ?? ''
        if (first === undefined || months.has(month) || used.includes(month)) continue
        await tx.query(makeAuditPartition, [first.sealedAt])
        used.push(month)
      }
      await append(tx, links.flat())
      return taken.length
    })
    for (const month of used) months.add(month)
    return count
  }
}

async function append(tx: Transaction, links: Parameters<typeof columnsOfLink>[0][]): Promise<void> {
  const ends = [...new Map(links.map((link) => [link.tenantId, link])).values()]
  await Promise.all([
    tx.query(appendAudit, [JSON.stringify(links.map(columnsOfLink))]),
    tx.query(moveAuditHeads, [
      ends.map((link) => link.tenantId),
      ends.map((link) => link.seq),
      ends.map((link) => link.hash),
      ends.map((link) => link.sealedAt),
    ]),
  ])
}

export function createPostgresAuditExports(db: Database): AuditExports {
  return {
    async behind(sink, signedOnly, { after, limit }) {
      const rows = await db.run(engine, findUnexported, [sink, signedOnly, after, limit])
      return rows.map(({ tenant_id: tenantId, seq, up_to: upTo }) => ({
        tenantId,
        seq: Number(seq),
        upTo: Number(upTo),
      }))
    },
    page: (tenantId, afterSeq, upTo, limit) =>
      db.transaction({ ...engine, readOnly: true }, async (tx) => {
        const rows = await tx.query(readAuditChain, [tenantId, afterSeq, limit])
        const links = rows.map(linkOf).filter(({ seq }) => seq <= upTo)
        const last = links.at(-1)?.seq ?? afterSeq
        const [points, cuts] = await Promise.all([
          tx.query(readAuditCheckpoints, [tenantId, afterSeq, last]),
          tx.query(readAuditCuts, [tenantId]),
        ])
        const newCuts = cuts.map(cutRecord).filter(({ firstSeq }) => firstSeq === links[0]?.seq)
        return [...newCuts, ...links, ...points.map(checkpointRecord)]
      }),
    async note(sink, tenantId, seq) {
      await db.run(engine, noteExported, [sink, tenantId, seq])
    },
  }
}

const readNowMs = async (tx: Transaction): Promise<number> => {
  const [row] = await tx.query(readNow, [])
  return Math.floor(row?.now.getTime() ?? 0)
}

const endOf = ({ tenant_id: tenantId, size, hash }: AuditHeadRow): ChainEnd => ({
  tenantId,
  size: Number(size),
  hash: hash.toString('hex'),
})

/** Never earlier than the entry before, so that partitions hold whole stretches of a chain. */
const sealedAtOf = ({ sealed_ms: sealedMs }: AuditHeadRow, nowMs: number): string =>
  new Date(Math.max(nowMs, sealedMs ?? 0)).toISOString()
