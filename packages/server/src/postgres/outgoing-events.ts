/**
 * The record of what has ended, as the relay of events reads it. A look is one short transaction: up to where
 * all is settled, and what lies before it.
 */
import type { EndedRecord } from '../domain/cloud-event.ts'
import type { OutgoingEvents } from '../ports/outgoing-events.ts'
import type { Database } from './database.ts'
import {
  beginOutgoing,
  type EndedRow,
  listEnded,
  noteOutgoing,
  readSettled,
  walkStretches,
} from './statements/outgoing-events.ts'

const engine = { role: 'belfry_engine' } as const
/** A look at a long history takes its time, and nobody waits for it. */
const reading = { ...engine, readOnly: true, timeoutMs: 30_000 } as const

/** `name`: one position for each place that events go to. */
export function createPostgresOutgoingEvents(db: Database, name: string): OutgoingEvents {
  return {
    async position() {
      const [place] = await db.run(engine, beginOutgoing, [name])
      const { number = 0, key = '', server = '', noted_ms: notedMs = 0 } = place ?? {}
      return { position: { number: Number(number), key, server }, notedMs }
    },
    read: (from, limit, stretch) =>
      db.transaction(reading, async (tx) => {
        const [, [settled]] = await Promise.all([tx.query(walkStretches, []), tx.query(readSettled, [])])
        const settledAt = Number(settled?.number ?? 0)
        const to = Math.min(settledAt, from.number + stretch)
        const { server } = from
        const setBack = settled?.server !== server || settledAt < from.number
        const at = { latest: Number(settled?.latest ?? 0), nowMs: settled?.now_ms ?? 0, setBack }
        if (setBack || to <= from.number) return { ...at, records: [], next: from, more: false }
        const rows = await tx.query(listEnded, [from.number, from.key, to, limit])
        const last = rows.length < limit ? undefined : rows.at(-1)
        const next =
          last === undefined
            ? { number: to, key: '', server }
            : { number: Number(last.number), key: last.key, server }
        const records = rows.filter(({ known }) => known).map(toRecord)
        return { ...at, records, next, more: last !== undefined || to < settledAt }
      }),
    async note({ number, key, server }) {
      await db.run(engine, noteOutgoing, [name, number, key, server])
    },
    doubts: db.doubts,
  }
}

const timeOf = (ms: number): string => new Date(ms).toISOString()
const maybeTime = (ms: number | null): string | null => (ms === null ? null : timeOf(ms))

function toRecord(row: EndedRow): EndedRecord {
  const { kind, tenant_id: tenantId, id, data } = row
  const scheduledFor = maybeTime(row.scheduled_ms)
  const times = { scheduledFor, endedAt: timeOf(row.ended_ms) }
  const record =
    kind === 'run'
      ? {
          runId: id,
          tenantId,
          ...data,
          ...times,
          startedAt: timeOf(row.started_ms),
          retryAt: maybeTime(row.retry_ms),
        }
      : { workflowRunId: id, tenantId, ...data, ...times, createdAt: timeOf(row.started_ms) }
  // the statement names each property
  return { kind, data: record } as EndedRecord
}
