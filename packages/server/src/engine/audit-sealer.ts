/**
 * Makes the chains of the audit, signs their ends and takes away what is older than retention:
 *
 *   inbox ──oldest first──► number, hash over entry and hash before ──► log, head moved   (one transaction)
 *   head  ──due──► signed checkpoint                                                      (another)
 *   month ──too old──► signed cut, then the partition goes                                (another)
 *
 * 1. One process does it: the holder of the shard of its name. Two, while that changes hands, wait for each
 *    other; a chain never forks.
 * 2. A request only puts its entry into the inbox, so no request of a tenant waits for another's. The price:
 *    for about a second (fifteen, after a quiet time) an entry stands in no chain.
 * 3. An end is signed at once where its last signature is older than `checkpointMs`, else when it is, or when
 *    so many entries were added.
 * 4. A process that dies leaves entries in the inbox or in the chain, never in between.
 */
import { checkpointOf, cutOf, linksBehind, type AuditSigner, type ChainEnd } from '../domain/audit-links.ts'
import { shardOfName } from '../domain/shard.ts'
import type { AuditSealing } from '../ports/audit-log.ts'
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Random } from '../ports/random.ts'
import type { Service } from '../ports/service.ts'
import type { Elector } from './elector.ts'
import { createLoop } from './loop.ts'

const entriesAStep = 1_000
const signedEntries = 1_000
const chainsAStep = 500
/** While things happen; where nothing does, twice as long each time. */
const leastPauseMs = 1_000
const longestPauseMs = 15_000
const cutEachMs = 3_600_000
const defaultCheckpointMs = 30_000
const defaultRetentionDays = 400
export const auditShard = shardOfName('belfry.audit')

export interface AuditSealerOptions {
  readonly sealing: AuditSealing
  /** Undefined: chains are made and not signed, and nothing is cut. */
  readonly signer: AuditSigner | undefined
  readonly elector: Pick<Elector, 'heldShards'>
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
  /** Default 30,000. */
  readonly checkpointMs?: number
  /** Whole months; what is younger than so many days stays. Default 400. */
  readonly retentionDays?: number
}

export interface AuditSealer extends Service {
  /** Seals and signs all that there is, whoever holds the shard; answers how many entries. For tests. */
  readonly runOnce: () => Promise<number>
  /** Takes old months away; answers which. For tests. */
  readonly cutOnce: () => Promise<readonly string[]>
}

export function createAuditSealer(options: AuditSealerOptions): AuditSealer {
  const { sealing, signer, clock, elector, random } = options
  const checkpointMs = options.checkpointMs ?? defaultCheckpointMs
  let keyIsNoted = false
  let pauseMs = leastPauseMs
  let cutAtMs = -Infinity

  async function sealAll(): Promise<number> {
    let total = 0
    for (;;) {
      const count = await sealing.seal(entriesAStep, linksBehind)
      total += count
      if (count < entriesAStep) return total
    }
  }
  async function signDue(waitMs: number): Promise<void> {
    if (signer === undefined) return
    if (!keyIsNoted) {
      await sealing.noteKey(signer)
      keyIsNoted = true
    }
    const due = { waitMs, entries: signedEntries, limit: chainsAStep }
    const { keyId } = signer
    const by = { keyId, checkpointOf: (end: ChainEnd, at: string) => checkpointOf(signer, end, at) }
    let signed = chainsAStep
    while (signed >= chainsAStep) signed = await sealing.sign(due, by)
  }
  async function cutOld(): Promise<readonly string[]> {
    if (signer === undefined) return []
    const months = await sealing.oldMonths(options.retentionDays ?? defaultRetentionDays)
    for (const month of months)
      await sealing.cutMonth(month, { keyId: signer.keyId, cutOf: (gone, at) => cutOf(signer, gone, at) })
    if (months.length > 0)
      options.events.emit('partitions_changed', {
        made: [],
        dropped: months.map((each) => `audit_log ${each}`),
      })
    return months
  }

  const loop = createLoop({
    ...options,
    name: 'audit_sealer',
    async round() {
      if (!elector.heldShards().some(({ shard }) => shard === auditShard)) return leastPauseMs
      const { waiting, unsigned } = await sealing.look()
      const idle = !waiting && (!unsigned || signer === undefined)
      pauseMs = idle ? Math.min(longestPauseMs, pauseMs * 4) : leastPauseMs
      if (waiting) await sealAll()
      if (!idle) await signDue(checkpointMs)
      if (clock.monotonicMs() - cutAtMs > cutEachMs) {
        await cutOld()
        cutAtMs = clock.monotonicMs()
      }
      return pauseMs * (0.9 + random.next() / 5)
    },
  })
  return {
    ...loop,
    async runOnce() {
      const count = await sealAll()
      await signDue(0)
      return count
    },
    cutOnce: cutOld,
  }
}
