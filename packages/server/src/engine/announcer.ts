/**
 * Announces runs that may be claimed, over Kafka or SQS: the relay of the run queue.
 *
 *   ready rows ──what comes next──► announcer ──tag order──► carrier ──► workers (announced-queue.ts)
 *
 * 1. Each queue has one announcer: the process that holds its shard. Two, while a shard changes hands,
 *    announce twice, which costs a look; none, and workers claim directly.
 * 2. It reads what comes next in a queue, as much as fits its window, and announces what it has not yet,
 *    lowest tag first. So the backlog stays in Postgres, and with it fair order, priority, limits and
 *    cancels.
 * 3. What still stands there 30 s later is announced again; so is all of it when the carrier has come back.
 * 4. It looks when a hint says so, again and again while there is more than its window, and once a second for
 *    queues that no hint told of. An idle one sends two short queries a second.
 *
 * The rows are the outbox: nothing is written. What was announced is known in memory only, a window's worth a
 * queue; whoever forgets it announces again.
 */
import { shardOfName } from '../domain/shard.ts'
import { type Announcement, type Announcements, CarrierAway } from '../ports/announcements.ts'
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { Random } from '../ports/random.ts'
import type { NextRun, ReadyWindows, ServedSlots } from '../ports/ready-windows.ts'
import type { Service } from '../ports/service.ts'
import { type AnnouncerMark, createAnnouncerMark } from './announcer-mark.ts'
import { baseWindows, createQueueWindow, type QueueWindow } from './announcer-window.ts'
import type { Elector } from './elector.ts'
import { createLoop } from './loop.ts'

const defaultAgainMs = 30_000
const defaultMaxQueues = 200
/** A queue that the carrier refused is tried again after so long, or sooner where very many are. */
const refusedMs = 30_000
const mostRefused = 1_000
const surveyMs = 1_000
/** While there is more than the window, and while there is not. */
const leastPauseMs = 5
const longestPauseMs = 250
const awayMs = 250
/** Queues in one look. */
const mostAtOnce = 64
/** A queue that has been empty for so long is forgotten. */
const forgottenMs = 60_000

/** Runs in one message: as few as can be, so that all workers get some, and more where there are many. */
const spread = 16
const mostOfMessage = 25

export interface AnnouncerOptions {
  readonly announcements: Announcements
  readonly windows: ReadyWindows
  readonly elector: Pick<Elector, 'heldShards'>
  readonly hints: Pick<Hints, 'subscribe'>
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
  /** Default 30,000. */
  readonly againMs?: number | undefined
  /** Queues that are announced here at most; others are claimed directly. Default 200. */
  readonly maxQueues?: number | undefined
}

export interface Announcer extends Service {
  /** One look at everything; for tests. */
  readonly runOnce: () => Promise<void>
  readonly stats: () => {
    readonly window: number
    readonly unclaimed: number
    readonly queues: number
    /** Queues that the carrier did not take lately. */
    readonly refused: number
  }
}

interface Watched {
  readonly name: string
  readonly window: QueueWindow
  readonly mark: AnnouncerMark
  /** Local monotonic. */
  lookMs: number
  pauseMs: number
  filledMs: number
  heard: boolean
}

export function createAnnouncer(options: AnnouncerOptions): Announcer {
  const { announcements, clock, hints } = options
  const state = createState(options)

  function heard(name: string): void {
    const queue = watch(state, name)
    if (queue === undefined) return
    queue.heard = true
    queue.lookMs = Math.min(queue.lookMs, clock.monotonicMs() + leastPauseMs)
    if (queue.pauseMs > leastPauseMs) loop.wake()
    queue.pauseMs = leastPauseMs
  }

  async function round(): Promise<number> {
    if (!announcements.up) return awayMs
    startAnew(state)
    await survey(state)
    try {
      await lookAll(state)
    } catch (error) {
      if (!(error instanceof CarrierAway)) throw error
      return awayMs
    }
    return Math.max(0, nextMs(state) - clock.monotonicMs())
  }

  const loop = createLoop({ ...options, name: 'announcer', longestRetryMs: 2_000, round })
  let unsubscribe = (): void => {}
  return {
    ...loop,
    async start() {
      unsubscribe = hints.subscribe((hint) => {
        if (hint.topic === 'ready') heard(hint.key)
      })
      await loop.start()
    },
    async stop() {
      unsubscribe()
      await loop.stop()
    },
    async runOnce() {
      dueNow(state)
      await round()
    },
    stats: () => statsOf(state),
  }
}

interface State {
  readonly options: AnnouncerOptions
  readonly queues: Map<string, Watched>
  /** By name, until when it is left alone; local monotonic. */
  readonly refused: Map<string, number>
  generation: number
  surveyedMs: number
  /** Where the walk over the names of queues goes on. */
  afterQueue: string
  slots: readonly ServedSlots[]
}

function createState(options: AnnouncerOptions): State {
  return {
    options,
    queues: new Map(),
    refused: new Map(),
    generation: options.announcements.generation,
    surveyedMs: -Infinity,
    afterQueue: '',
    slots: [],
  }
}

function isHeld({ options }: State, name: string): boolean {
  const shard = shardOfName(name)
  return options.elector.heldShards().some((held) => held.shard === shard)
}

/** Undefined where the queue is not to be announced here. */
function watch(state: State, name: string): Watched | undefined {
  const { queues, refused, options } = state
  const known = queues.get(name)
  if (known !== undefined) return known
  const nowMs = options.clock.monotonicMs()
  if (queues.size >= (options.maxQueues ?? defaultMaxQueues) || !isHeld(state, name)) return undefined
  if (nowMs < (refused.get(name) ?? -Infinity)) return undefined
  const window = createQueueWindow(options.againMs ?? defaultAgainMs)
  const times = { lookMs: nowMs, pauseMs: leastPauseMs, filledMs: nowMs }
  const queue = { name, window, mark: createAnnouncerMark(), ...times, heard: false }
  queues.set(name, queue)
  fit(state)
  return queue
}

/** Slots are those of the last survey: a queue that is new gets its window at once. */
function fit({ queues, slots }: State): void {
  const bases = baseWindows([...queues.keys()], slots)
  for (const queue of queues.values()) queue.window.base(bases.get(queue.name) ?? 0)
}

/** What was announced may be gone. */
function startAnew(state: State): void {
  const { announcements, clock } = state.options
  if (state.generation === announcements.generation) return
  state.generation = announcements.generation
  for (const queue of state.queues.values()) {
    queue.window.forget()
    queue.lookMs = clock.monotonicMs()
  }
  state.refused.clear()
}

/** Once a second: who serves what, and queues of which no hint told. */
async function survey(state: State): Promise<void> {
  const { clock, elector, windows } = state.options
  const nowMs = clock.monotonicMs()
  if (nowMs - state.surveyedMs < surveyMs) return
  state.surveyedMs = nowMs
  for (const [name, queue] of state.queues) {
    if (!isHeld(state, name) || nowMs - queue.filledMs > forgottenMs) state.queues.delete(name)
  }
  if (elector.heldShards().length === 0) return
  state.slots = await windows.slots()
  const found = await windows.queues(state.afterQueue)
  state.afterQueue = found.next ?? ''
  for (const name of found.queues) {
    const queue = watch(state, name)
    if (queue !== undefined) queue.lookMs = Math.min(queue.lookMs, nowMs)
  }
  fit(state)
}

async function lookAll(state: State): Promise<void> {
  const nowMs = state.options.clock.monotonicMs()
  const due = [...state.queues.values()].filter(({ lookMs, window }) => lookMs <= nowMs && window.size() > 0)
  for (let first = 0; first < due.length; first += mostAtOnce) {
    await look(state, due.slice(first, first + mostAtOnce))
  }
}

async function look(state: State, due: readonly Watched[]): Promise<void> {
  const { clock, windows } = state.options
  const sentMs = clock.monotonicMs()
  const asked = due.map((queue) => ({
    queue,
    minTag: queue.mark.minTag(sentMs),
    size: queue.window.size(),
  }))
  const next = await windows
    .next(asked.map((each) => ({ ...each, queue: each.queue.name })))
    .catch((error: unknown) => {
      const nowMs = clock.monotonicMs()
      for (const { queue, minTag } of asked) queue.mark.read(minTag, undefined, nowMs - sentMs, nowMs)
      throw error
    })
  const nowMs = clock.monotonicMs()
  const fresh = new Map<Watched, readonly NextRun[]>()
  for (const { queue, minTag, size } of asked) {
    const runs = next.get(queue.name) ?? []
    queue.mark.read(minTag, runs[0]?.tag ?? null, nowMs - sentMs, nowMs)
    const its = queue.window.look(runs, nowMs)
    fresh.set(queue, its)
    if (runs.length > 0) queue.filledMs = nowMs
    plan(queue, { filled: runs.length >= size, news: its.length > size / 4 }, nowMs)
  }
  await announce(state, fresh)
}

async function announce(state: State, fresh: ReadonlyMap<Watched, readonly NextRun[]>): Promise<void> {
  const { announcements, clock, events } = state.options
  const messages = [...fresh].flatMap(([queue, runs]) => toAnnouncements(queue.name, runs))
  if (messages.length === 0) return
  const { refused } = await announcements.announce(messages)
  const nowMs = clock.monotonicMs()
  refuse(state, refused, nowMs)
  for (const [{ name, window }, runs] of fresh) {
    if (runs.length === 0 || refused.includes(name)) continue
    const again = window.announced(runs, nowMs)
    events.emit('runs_announced', { queue: name, count: runs.length, again })
  }
}

function refuse({ queues, refused }: State, names: readonly string[], nowMs: number): void {
  for (const [name, untilMs] of refused) if (untilMs <= nowMs) refused.delete(name)
  for (const name of names) {
    queues.delete(name)
    refused.set(name, nowMs + refusedMs)
  }
  for (const name of refused.keys()) {
    if (refused.size <= mostRefused) break
    refused.delete(name)
  }
}

function nextMs({ queues, surveyedMs }: State): number {
  const looks = [...queues.values()].filter(({ window }) => window.size() > 0)
  return looks.reduce((next, { lookMs }) => Math.min(next, lookMs), surveyedMs + surveyMs)
}

function dueNow(state: State): void {
  state.surveyedMs = -Infinity
  for (const queue of state.queues.values()) {
    queue.lookMs = -Infinity
    queue.mark.reset()
  }
}

function statsOf({ queues, refused }: State): ReturnType<Announcer['stats']> {
  const all = [...queues.values()].map(({ window }) => window)
  const sum = (of: (window: QueueWindow) => number) => all.reduce((total, each) => total + of(each), 0)
  return {
    window: sum((each) => each.size()),
    unclaimed: sum((each) => each.unclaimed()),
    queues: queues.size,
    refused: refused.size,
  }
}

/**
 * When to look again. With more than fits, soon: sooner the more of the window was used up. With all of it
 * announced there is nothing to see until a hint or the next survey; one look more is for rows of
 * transactions that were committed behind their hint.
 */
function plan(
  queue: Watched,
  seen: { readonly filled: boolean; readonly news: boolean },
  nowMs: number,
): void {
  if (seen.news) queue.pauseMs = leastPauseMs
  else queue.pauseMs = Math.min(longestPauseMs, queue.pauseMs * 2)
  const more = seen.filled || queue.heard
  queue.heard = false
  queue.lookMs = more ? nowMs + queue.pauseMs : Infinity
}

function toAnnouncements(queue: string, runs: readonly NextRun[]): readonly Announcement[] {
  const size = Math.min(mostOfMessage, Math.max(1, Math.ceil(runs.length / spread)))
  const free = runs.filter(({ orderKey }) => orderKey === undefined)
  const messages: Announcement[] = []
  for (let first = 0; first < free.length; first += size) {
    messages.push({ queue, runs: free.slice(first, first + size).map(toNamed) })
  }
  for (const run of runs) {
    if (run.orderKey !== undefined) messages.push({ queue, orderKey: run.orderKey, runs: [toNamed(run)] })
  }
  return messages
}

const toNamed = ({ runId, tag }: NextRun) => ({ runId, tag })
