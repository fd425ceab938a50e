/**
 * Computes future times again where what they were computed with has changed. Runs on every scheduler node.
 *
 * 1. At start: the zone data of this process is put on record, or is found to be older than what is
 *    (domain/zone/zone-data.ts). Newer data asks for a replan of each zone whose rules differ from now on.
 * 2. Each minute, or at a hint: is there a schedule whose next time was computed by older rules than are on
 *    record? A node or an API with older data leaves such, as long as there is one; so does the first start
 *    that keeps a record.
 * 3. Open replans are worked off batch by batch (ports/replans.ts), each a transaction, with a pause as long
 *    as the batch took, so that what is due does not wait for them.
 *
 * Nodes need no agreement: a replan is worked on by one at a time, and any of them goes on with it. A node
 * with older data than a replan is for leaves it alone.
 */
import { shardOf } from '../domain/shard.ts'
import { judgeZoneData, type ZoneDataVerdict } from '../domain/zone/zone-data.ts'
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { Ids } from '../ports/ids.ts'
import type { Random } from '../ports/random.ts'
import type { BatchOutcome, ReplanRecord, ReplanStore } from '../ports/replans.ts'
import type { Service } from '../ports/service.ts'
import type { ZoneSource } from '../ports/zones.ts'
import { createLoop } from './loop.ts'
import { decideReplans } from './replan-decider.ts'
import { settledWithin } from './within.ts'

const stopWithinMs = 2_000
/** What was about to fire is looked at again after this: by then it has fired, or is seen not to. */
const againMs = 15_000
/** New due instants further ahead are found by the scheduler's own reading. */
const hintWithinMs = 120_000
const longestPauseMs = 1_000
const inOtherHandsMs = 1_000

export interface ReplannerOptions {
  readonly store: ReplanStore
  readonly zones: ZoneSource
  readonly ids: Ids
  readonly hints: Hints
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
  readonly nodeId: string
  /** Default 60 s. */
  readonly intervalMs?: number
  /** Schedules in one transaction. Default 200. */
  readonly batchSize?: number
}

export interface Replanner extends Service {
  /** Everything there is to do now, without a pause; answers how many schedules were looked at. */
  readonly runOnce: () => Promise<number>
  /** How the zone data of this process stands to what is on record; undefined before the first look. */
  readonly zoneData: () => ZoneDataVerdict | undefined
}

export function createReplanner(options: ReplannerOptions): Replanner {
  const { store, zones, ids, hints, clock, random, events, nodeId } = options
  const { intervalMs = 60_000, batchSize = 200 } = options
  let verdict: ZoneDataVerdict | undefined
  let nextLookMs = -Infinity

  async function record(): Promise<void> {
    const found = await store.recordZoneData((stored, nowMs) => judgeZoneData(stored, zones, nowMs))
    verdict = found.verdict
    tellOfZoneData(options, found.verdict)
    for (const superseded of found.superseded) events.emit('replan_ended', endFacts(superseded, nodeId))
  }

  async function look(): Promise<void> {
    const opened = await store.requestForZones((nowMs) => ids.uuidv7(nowMs))
    nextLookMs = clock.monotonicMs() + intervalMs * (0.8 + random.next() * 0.4)
    if (opened.length > 0) hints.publish({ topic: 'replans', key: 'asked' })
  }

  const work = () =>
    store.batch({ dataVersion: zones.dataVersion, limit: batchSize, againMs }, (batch) =>
      decideReplans(batch, zones),
    )

  async function round(signal: AbortSignal): Promise<number> {
    if (verdict === undefined) await record()
    for (;;) {
      if (clock.monotonicMs() >= nextLookMs) await look()
      const startedMs = clock.monotonicMs()
      const outcome = await work()
      const untilLookMs = nextLookMs - clock.monotonicMs()
      if (outcome.idle) return Math.min(untilBatch(outcome.waitMs), Math.max(0, untilLookMs))
      tell(options, outcome)
      await clock.sleep(Math.min(longestPauseMs, clock.monotonicMs() - startedMs), signal)
      if (signal.aborted) return 0
    }
  }

  const loop = createLoop({ name: 'replanner', clock, random, events, round })
  let unsubscribe = (): void => {}
  return {
    name: loop.name,
    zoneData: () => verdict,
    async start() {
      unsubscribe = hints.subscribe((hint) => {
        if (hint.topic === 'replans') loop.wake()
      })
      await loop.start()
    },
    async stop() {
      unsubscribe()
      // a batch that is under way is rolled back or committed as a whole; either is safe to leave
      await settledWithin(clock, stopWithinMs, loop.stop())
    },
    async runOnce() {
      await record()
      await look()
      let looked = 0
      for (let outcome = await work(); !outcome.idle; outcome = await work()) {
        tell(options, outcome)
        looked += outcome.looked
      }
      return looked
    },
  }
}

/** One that could go on now and was not taken is in the hands of another node. */
function untilBatch(waitMs: number | null): number {
  if (waitMs === null) return Infinity
  return waitMs > 0 ? waitMs : inOtherHandsMs
}

function tellOfZoneData({ events, nodeId, zones }: ReplannerOptions, verdict: ZoneDataVerdict): void {
  const { source, dataVersion } = zones
  if (verdict.kind === 'newer') {
    const { from: fromVersion, changed } = verdict
    const versions = { fromVersion, toVersion: dataVersion }
    events.emit('zone_data_changed', { nodeId, source, ...versions, zones: changed })
  } else if (verdict.kind !== 'first' && (verdict.kind === 'older' || verdict.differing.length > 0)) {
    const newest = verdict.kind === 'older' ? verdict.newest : dataVersion
    const facts = { nodeId, source, version: dataVersion, newest }
    events.emit('zone_data_differs', { ...facts, zones: verdict.differing })
  }
}

/** Events of a batch, and hints to the shards of timers that are near. */
function tell({ events, hints, nodeId }: ReplannerOptions, outcome: BatchOutcome): void {
  const { replan: record, began, looked, moved, ended, failed, nowMs } = outcome
  const facts = factsOf(record, nodeId)
  if (began) events.emit('replan_started', facts)
  if (looked > 0) {
    const now = { looked, movedNow: moved.length + ended, failedNow: failed }
    events.emit('replan_advanced', { ...facts, ...now })
  }
  const near = moved.filter(({ dueAtMs }) => dueAtMs < nowMs + hintWithinMs)
  for (const shard of new Set(near.map(({ scheduleId }) => shardOf(scheduleId))))
    hints.publish({ topic: 'timers', key: String(shard) })
  if (record.endedAtMs !== null) events.emit('replan_ended', endFacts(record, nodeId))
}

function factsOf(record: ReplanRecord, nodeId: string) {
  const { id: replanId, kind, subject, tenantId, fromVersion, toVersion } = record
  const { total, done, moved, failed } = record
  return { replanId, nodeId, kind, subject, tenantId, fromVersion, toVersion, total, done, moved, failed }
}

function endFacts(record: ReplanRecord, nodeId: string) {
  const { error, requestedAtMs } = record
  const state = record.state === 'superseded' ? ('superseded' as const) : ('done' as const)
  return { ...factsOf(record, nodeId), state, error, requestedAtMs }
}
