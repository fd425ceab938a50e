/**
 * Sends the chains on to places outside of the database: a file, a topic. From the position that is noted for
 * a place, entries in order and the checkpoints among them; noted after the place holds them, so what a crash
 * cuts off is sent again. With a key, only what is signed leaves: each page ends with what attests it.
 * The holder of the sealer's shard does it.
 */
import type { AuditExports, AuditSink } from '../ports/audit-log.ts'
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Random } from '../ports/random.ts'
import type { Service } from '../ports/service.ts'
import { auditShard } from './audit-sealer.ts'
import type { Elector } from './elector.ts'
import { createLoop } from './loop.ts'

const pageSize = 500
const chainsAPage = 100
/** While things happen; where nothing does, twice as long each time. */
const leastPauseMs = 1_000
const longestPauseMs = 15_000
const awayMs = 2_000

export interface AuditExporter extends Service {
  /** Sends all that there is, whoever holds the shard; answers how many records. For tests. */
  readonly runOnce: () => Promise<number>
}

export function createAuditExporter(options: {
  readonly exports: AuditExports
  readonly sink: AuditSink
  /** Whether there is a key that signs. */
  readonly signedOnly: boolean
  readonly elector: Pick<Elector, 'heldShards'>
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
}): AuditExporter {
  const { exports, sink, signedOnly, elector } = options
  let pauseMs = leastPauseMs

  async function sendChain(tenantId: string, from: number, upTo: number): Promise<number> {
    let seq = from
    let sent = 0
    while (seq < upTo) {
      const records = await exports.page(tenantId, seq, upTo, pageSize)
      const last = records.findLast(({ type }) => type === 'entry')
      if (last?.type !== 'entry') {
        // retention took the rest away: there is nothing to send up to there
        await exports.note(sink.name, tenantId, upTo)
        return sent
      }
      await sink.write(records)
      await exports.note(sink.name, tenantId, last.seq)
      seq = last.seq
      sent += records.length
    }
    return sent
  }
  async function sendAll(): Promise<number> {
    let sent = 0
    let after: string | null = null
    for (;;) {
      const behind = await exports.behind(sink.name, signedOnly, { after, limit: chainsAPage })
      for (const { tenantId, seq, upTo } of behind) sent += await sendChain(tenantId, seq, upTo)
      after = behind.at(-1)?.tenantId ?? null
      if (behind.length < chainsAPage) return sent
    }
  }

  const loop = createLoop({
    ...options,
    name: `audit_exporter.${sink.name.split(':')[0] ?? 'sink'}`,
    async round() {
      if (!elector.heldShards().some(({ shard }) => shard === auditShard)) return leastPauseMs
      if (!sink.up) return awayMs
      pauseMs = (await sendAll()) > 0 ? leastPauseMs : Math.min(longestPauseMs, pauseMs * 2)
      return pauseMs
    },
  })
  return { ...loop, runOnce: sendAll }
}
