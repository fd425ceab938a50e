/**
 * Sends on what has ended, as CloudEvents:
 *
 *   record (attempts, workflow runs) ──from the position──► relay ──in order──► publisher ──► position noted
 *
 * 1. One process does it: the holder of the shard of its name. Two, while that changes hands, send twice.
 * 2. It reads in the order of transactions, up to the oldest that is still open, so that none is passed over;
 *    one that stays open for long holds back what was committed since.
 * 3. The position is noted after the publisher has a page, once a second at most: what a crash cuts off is
 *    sent again, with the same ids.
 * 4. A server that crashed, or a standby that took over, may give numbers out again that were passed here. So
 *    at each sign of it the relay goes back to the position that is noted there.
 * 5. While the publisher is away nothing is read; the record waits as long as history is kept.
 */
import { cloudEventOf, type EndedRecord } from '../domain/cloud-event.ts'
import { shardOfName } from '../domain/shard.ts'
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type {
  EventPublisher,
  OutgoingEvents,
  OutgoingPage,
  OutgoingPosition,
} from '../ports/outgoing-events.ts'
import type { Random } from '../ports/random.ts'
import type { Service } from '../ports/service.ts'
import type { Elector } from './elector.ts'
import { sendEvents } from './event-sending.ts'
import { createLoop } from './loop.ts'

/** Of one key they are one batch, which brokers take up to 1 MB of. */
const pageSize = 500
/** Numbers of transactions in one look: as many as fill about a page. */
const mostStretch = 5_000_000
const firstStretch = 2_000
/** One that takes longer asks for less the next time. */
const slowLookMs = 2_000
/** Each look reads an index that grows with the history: where there is not a page to be had, not at once. */
const leastPauseMs = 250
const longestPauseMs = 1_000
const awayMs = 500
const noteMs = 1_000
const relayShard = shardOfName('belfry.events')

export interface EventRelayOptions {
  readonly outgoing: OutgoingEvents
  readonly publisher: EventPublisher
  /** In the `source` of events. */
  readonly installation: string
  readonly elector: Pick<Elector, 'heldShards'>
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
}

export interface EventRelay extends Service {
  /** Sends all that there is, whoever holds the shard; answers how many events. For tests. */
  readonly runOnce: () => Promise<number>
  /** All that had ended so long ago has been sent; 0 where another process does that. */
  readonly lagMs: () => number
}

/** How far it has come, and by when. */
interface Place {
  position: OutgoingPosition
  noted: OutgoingPosition
  /** Of the record, when the position was read. */
  readonly doubts: number
  /** All that had ended by then has been sent; local monotonic. */
  sentMs: number
  /** What had ended at the time of some look has lower numbers. */
  goal?: { readonly number: number; readonly atMs: number } | undefined
}

export function createEventRelay(options: EventRelayOptions): EventRelay {
  const { outgoing, clock, elector } = options
  const sender = createSender(options)
  let pauseMs = leastPauseMs

  const loop = createLoop({
    ...options,
    name: 'event_relay',
    async round() {
      if (!elector.heldShards().some(({ shard }) => shard === relayShard)) {
        // others go on from what is noted, and so does this one when it has the shard again
        await sender.note()
        sender.forget()
        return longestPauseMs
      }
      await sender.locate()
      if (!options.publisher.up) return awayMs
      const { count, full, more } = await sender.sendPage()
      if (clock.monotonicMs() - sender.notedAtMs > noteMs) await sender.note()
      pauseMs = count > 0 || more ? leastPauseMs : Math.min(longestPauseMs, pauseMs * 2)
      return full ? 0 : pauseMs * (1 + options.random.next() / 5)
    },
    onStop: () => sender.note().catch(() => undefined),
  })
  return {
    ...loop,
    async start() {
      // the very first begins here, not when it gets the shard: what ends in between is told of
      await outgoing.position().catch(() => undefined)
      await loop.start()
    },
    async runOnce() {
      let sent = 0
      for (;;) {
        const { count, more } = await sender.sendPage()
        sent += count
        if (!more) break
      }
      await sender.note()
      return sent
    },
    lagMs: () => sender.lagMs(),
  }
}

interface SentPage {
  readonly count: number
  readonly full: boolean
  readonly more: boolean
}

/** Sends page after page, and keeps the place. */
function createSender(options: EventRelayOptions) {
  const { outgoing, clock } = options
  const look = createLook(options)
  let place: Place | undefined
  let notedAtMs = -Infinity

  async function locate(): Promise<Place> {
    const doubts = outgoing.doubts()
    if (place?.doubts !== doubts) {
      place = undefined
      const { position, notedMs } = await outgoing.position()
      place = { position, noted: position, doubts, sentMs: clock.monotonicMs() - Math.max(0, notedMs) }
    }
    return place
  }

  return {
    get notedAtMs() {
      return notedAtMs
    },
    locate,
    /** Answers how many were sent, and whether there is more. */
    async sendPage(): Promise<SentPage> {
      const at = await locate()
      const startedMs = clock.monotonicMs()
      const page = await look(at)
      if (page.setBack) {
        place = undefined
        return { count: 0, full: true, more: true }
      }
      await send(options, page, startedMs)
      at.position = page.next
      at.goal ??= { number: page.latest, atMs: startedMs }
      if (page.next.number >= at.goal.number) {
        at.sentMs = at.goal.atMs
        at.goal = undefined
      }
      return { count: page.records.length, full: page.next.key !== '', more: page.more }
    },
    async note(): Promise<void> {
      if (place === undefined || place.position === place.noted || place.doubts !== outgoing.doubts()) return
      const { position } = place
      await outgoing.note(position)
      place.noted = position
      notedAtMs = clock.monotonicMs()
    },
    forget() {
      place = undefined
    },
    lagMs: () => (place === undefined ? 0 : clock.monotonicMs() - place.sentMs),
  }
}

/** Reads a page; how far it looks goes by the looks before. */
function createLook({ outgoing, clock }: EventRelayOptions): (from: Place) => Promise<OutgoingPage> {
  let stretch = firstStretch
  return async ({ position }) => {
    const startedMs = clock.monotonicMs()
    let slow = true
    try {
      const page = await outgoing.read(position, pageSize, stretch)
      slow = clock.monotonicMs() - startedMs > slowLookMs
      if (!slow && !page.setBack) stretch = nextStretch(stretch, position, page)
      return page
    } finally {
      if (slow) stretch = Math.max(1, Math.floor(stretch / 4))
    }
  }
}

async function send(
  { publisher, installation, events, clock }: EventRelayOptions,
  { records, nowMs }: OutgoingPage,
  startedMs: number,
): Promise<void> {
  if (records.length === 0) return
  const skipped = await sendEvents(
    publisher,
    records.map((record) => cloudEventOf(record, installation)),
  )
  for (const { event, fault } of skipped) {
    events.emit('event_skipped', { id: event.id, type: event.type, fault: fault.message })
  }
  const lagMs = Math.max(0, nowMs - oldestMs(records))
  const count = records.length - skipped.length
  events.emit('events_sent', { count, lagMs, durationMs: clock.monotonicMs() - startedMs })
}

const oldestMs = (records: readonly EndedRecord[]): number =>
  Math.min(...records.map(({ data }) => Date.parse(data.endedAt)))

/** Twice what filled a page; more where it did not, and there is more. */
function nextStretch(stretch: number, from: OutgoingPosition, { next, more }: OutgoingPage): number {
  if (next.key !== '') return Math.max(1, 2 * (next.number - from.number))
  return more ? Math.min(mostStretch, stretch * 4) : stretch
}
