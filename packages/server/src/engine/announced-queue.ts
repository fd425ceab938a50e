/**
 * A run queue that Kafka or SQS carries (ports/announcements.ts), on the one in Postgres:
 *
 *   inbox ──► what was heard (heard-runs.ts) ──ids──► claim in Postgres ──durable──► settled ──► executed
 *                                             │
 *   carrier away, or nothing heard ───────────┴─ a plain claim, in tag order
 *
 * 1. What is announced is taken as it comes, up to a bound, and wakes the worker as a hint does.
 * 2. A claim takes what was announced of a queue, by ids; what of it is not there any more, somebody else
 *    has.
 * 3. Once a second, and for as long as nothing is announced, a queue is claimed directly
 *    (announced-lanes.ts).
 * 4. Messages are settled as soon as the claim is durable. If this process dies before, they come again, to
 *    others; if it dies after, its session brings the runs back.
 *
 * So neither lost nor forged announcements decide what runs: at worst a run is a second late.
 */
import { type AnnouncementInbox, CarrierAway } from '../ports/announcements.ts'
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hint, Hints } from '../ports/hints.ts'
import type { Random } from '../ports/random.ts'
import type { AnnouncedRuns, Claim, ClaimedRun, QueueShare, RunQueue } from '../ports/run-queue.ts'
import type { Service } from '../ports/service.ts'
import { type AnnouncedLanes, createAnnouncedLanes } from './announced-lanes.ts'
import { createClaimPositions } from './claim-positions.ts'
import { createHeardRuns, type HeardRun, type HeardRuns } from './heard-runs.ts'
import { createLoop } from './loop.ts'
import { createLowWaterMarks, type LowWaterMarks } from './low-water-marks.ts'
import { ranOutOfTime } from './out-of-time.ts'

/** The announcer repeats itself about as often. */
const lifeMs = 30_000
const directEveryMs = 1_000
const leastCapacity = 64
/** Of one take. */
const mostTaken = 500
const takeMs = 1_000
/** How long to wait where the carrier is away, or there is no room. */
const awayMs = 200
const fullMs = 100

export interface AnnouncedQueueOptions {
  readonly queue: RunQueue
  readonly runs: AnnouncedRuns
  readonly inbox: AnnouncementInbox
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
  /** Of the worker. */
  readonly slots: number
}

export interface AnnouncedQueue extends RunQueue, Service {
  /** Hints for the worker: what is announced stands in for those of queues that are claimed by it. */
  readonly withHints: (hints: Hints) => Hints
  readonly stats: () => AnnouncedStats
}

export interface AnnouncedStats {
  /** Runs that were announced and not claimed yet. */
  readonly waiting: number
  /** Queues that are claimed directly because runs came up that had not been announced. */
  readonly silentQueues: number
}

type Asked = Parameters<RunQueue['claim']>[0]
type Listener = (hint: Hint) => void

/** What the parts of a queue share. */
interface State extends AnnouncedQueueOptions {
  readonly heard: HeardRuns
  readonly lanes: AnnouncedLanes
  readonly marks: LowWaterMarks
  readonly listeners: Set<Listener>
  /** Settles what nothing is left of. */
  readonly settle: () => void
}

export function createAnnouncedQueue(options: AnnouncedQueueOptions): AnnouncedQueue {
  const { queue, inbox, clock } = options
  const heard = createHeardRuns(lifeMs)
  const state: State = {
    ...options,
    heard,
    lanes: createAnnouncedLanes(directEveryMs),
    marks: createClaimPositions(createLowWaterMarks()),
    listeners: new Set(),
    settle() {
      const done = heard.settled()
      if (done.length > 0) void inbox.settle(done)
    },
  }
  const round = (signal: AbortSignal): Promise<number> => listen(state, signal)
  const loop = createLoop({ ...options, name: 'announcements', round })

  return {
    name: loop.name,
    keepsMarks: true,
    async claim(asked) {
      const { direct, entries } = spread(state, asked.shares, clock.monotonicMs())
      const claims: Promise<Claim>[] = []
      if (direct.length > 0) claims.push(claimDirectly(state, asked, direct))
      // which are over is told once
      const rest = direct.length > 0 ? { ...asked, overNumbers: [] } : asked
      // one that asks for nothing tells whether the session is alive, and the time
      if (direct.length === 0 || entries.length > 0) claims.push(claimHeard(state, rest, entries))
      const answers = await Promise.allSettled(claims)
      state.settle()
      loop.wake()
      return together(answers)
    },
    readyQueues: (cursor) => queue.readyQueues(cursor),
    withHints: (hints) => heardWith(state, hints),
    async start() {
      await inbox.start()
      await loop.start()
    },
    async stop() {
      await loop.stop()
      state.settle()
      await inbox.release(heard.clear())
      // from here on nothing is heard: what is claimed still, is claimed directly
      await inbox.close()
    },
    stats: () => ({ waiting: heard.size(), silentQueues: state.lanes.silent() }),
  }
}

/** Takes what is announced, as much as there is room for, and wakes the worker. */
async function listen(state: State, signal: AbortSignal): Promise<number> {
  const { heard, inbox, clock, lanes, listeners, slots } = state
  heard.expire(clock.monotonicMs())
  state.settle()
  const room = Math.max(leastCapacity, 2 * slots) - heard.size()
  if (!inbox.up) return awayMs
  if (room <= 0) return fullMs
  try {
    const taken = await inbox.take(Math.min(room, mostTaken), takeMs, signal)
    const nowMs = clock.monotonicMs()
    heard.add(taken, nowMs)
    for (const queue of new Set(taken.map((each) => each.queue))) {
      lanes.heard(queue, nowMs)
      for (const tell of listeners) tell({ topic: 'ready', key: queue })
    }
    return 0
  } catch (error) {
    if (error instanceof CarrierAway) return awayMs
    throw error
  }
}

/** Which shares are claimed directly, and what of the others was announced. */
function spread({ heard, inbox, lanes }: State, shares: readonly QueueShare[], nowMs: number) {
  const direct: QueueShare[] = []
  const entries: HeardRun[] = []
  for (const share of shares) {
    // who asks up to a tag looks for what was passed over: no announcement tells of that
    const isLook = (share.maxTag ?? Infinity) < Infinity
    if (!inbox.up || isLook || lanes.takeTurn(share.queue, nowMs)) direct.push(share)
    else entries.push(...heard.pick(share.queue, share.limit, share.minTag))
  }
  return { direct, entries }
}

async function claimDirectly(state: State, asked: Asked, shares: readonly QueueShare[]): Promise<Claim> {
  const { clock, marks } = state
  const sentMs = clock.monotonicMs()
  const marked = shares.map((share) => {
    const { minTag, maxTag } = marks.range(share.queue, sentMs)
    return {
      ...share,
      minTag: Math.max(share.minTag, minTag),
      maxTag: Math.min(share.maxTag ?? Infinity, maxTag),
    }
  })
  const claim = await state.queue.claim({ ...asked, shares: marked }).catch((error: unknown) => {
    const failedMs = clock.monotonicMs()
    const afterMs = ranOutOfTime(error) ? failedMs - sentMs : undefined
    for (const share of marked) marks.failed(share, afterMs, failedMs)
    throw error
  })
  const nowMs = clock.monotonicMs()
  const byQueue = Map.groupBy(claim.runs, (run) => run.queue)
  for (const { queue, minTag, maxTag, limit } of marked) {
    const runs = byQueue.get(queue) ?? []
    const highestTag = runs.at(-1)?.tag ?? null
    const filled = runs.length >= limit
    marks.report({ queue, minTag, maxTag, highestTag, filled, durationMs: nowMs - sentMs }, nowMs)
    compare(state, queue, runs, claim.nowMs)
  }
  return claim
}

/** What was claimed directly, against what was announced of it. */
function compare(state: State, queue: string, runs: readonly ClaimedRun[], databaseNowMs: number): void {
  const { heard, inbox, lanes, clock, events } = state
  if (runs.length === 0) return
  const quiet = !heard.has(queue)
  const known = heard.drop(
    queue,
    runs.map((run) => run.runId),
  )
  const waitsMs = runs.flatMap(({ runId, availableAtMs }) =>
    known.has(runId) ? [] : [databaseNowMs - availableAtMs],
  )
  if (inbox.up && quiet) lanes.missed(queue, Math.max(0, ...waitsMs), clock.monotonicMs())
  events.emit('announced_claim', { queue, claimed: 0, gone: 0, direct: runs.length })
}

async function claimHeard(
  { heard, runs, events }: State,
  { sessionId, routes, deadlineMarginMs, number, overNumbers }: Asked,
  entries: readonly HeardRun[],
): Promise<Claim> {
  const claimant = { sessionId, routes, deadlineMarginMs, number, overNumbers }
  const claim = await runs.claimNamed({ ...claimant, runs: entries }).catch((error: unknown) => {
    heard.putBack(entries)
    throw error
  })
  if (!claim.alive) {
    heard.putBack(entries)
    return claim
  }
  heard.finish(entries)
  const byQueue = Map.groupBy(claim.runs, (run) => run.queue)
  for (const [queue, its] of Map.groupBy(entries, (entry) => entry.queue)) {
    const claimed = byQueue.get(queue)?.length ?? 0
    events.emit('announced_claim', { queue, claimed, gone: its.length - claimed, direct: 0 })
  }
  return claim
}

function heardWith({ inbox, lanes, listeners }: State, hints: Hints): Hints {
  return {
    publish: (hint) => hints.publish(hint),
    subscribe(listener) {
      listeners.add(listener)
      const unsubscribe = hints.subscribe((hint) => {
        if (hint.topic !== 'ready' || !inbox.up || !lanes.isAnnounced(hint.key)) listener(hint)
      })
      return () => {
        listeners.delete(listener)
        unsubscribe()
      }
    },
  }
}

/**
 * One claim of two. If one of them failed, what the other took is not known to anybody: the caller looks for
 * it, as after an answer that was lost (strays.ts).
 */
function together(answers: readonly PromiseSettledResult<Claim>[]): Claim {
  const claims = answers.map((answer) => {
    if (answer.status === 'rejected') throw answer.reason
    return answer.value
  })
  const [first, second] = claims
  if (first === undefined) throw new TypeError('Nothing was asked.')
  if (second === undefined) return first
  const runs = [...first.runs, ...second.runs]
  runs.sort((a, b) => a.tag - b.tag || (a.runId < b.runId ? -1 : 1))
  return { runs, alive: first.alive && second.alive, nowMs: Math.max(first.nowMs, second.nowMs) }
}
