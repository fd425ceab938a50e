/**
 * A streaming replica for lists: whether it is there, and how far it is behind. Known exactly, whatever the
 * clocks say:
 *
 *   1 the primary is asked how far its log is; the moment before the question is kept with the answer
 *   2 the replica is asked how far it has replayed; once that is as far, it shows all that was committed
 *     before that moment
 *   3 that moment is how fresh it is; it may be used for what needs to be no fresher
 *
 * A reader who has just changed something, or was told something newer, is not sent there until it shows
 * that. While nobody lists anything, it is looked at every few seconds only. Not used, and why, is told:
 * `up`, or `away` with the fault. Nothing depends on it.
 */
import type { EventSink } from '../ports/event-sink.ts'
import type { Clock } from '../ports/clock.ts'
import type { Random } from '../ports/random.ts'
import type { Database } from './database.ts'
import type { ReplicationRow } from './statements/hosts.ts'
import { readReplication } from './statements/hosts.ts'

const lookMs = 250
const idleLookMs = 5_000
const idleAfterMs = 10_000
const longestPauseMs = 5_000
const answerWithinMs = 2_000
/** Moments that wait for the replica to come as far; of more the newest are left out. */
const mostMoments = 64
const mostReaders = 10_000

export interface ReplicaStats {
  readonly up: boolean
  /** Local wall clock, epoch ms. */
  readonly sinceMs: number
  /** Why it is not used; null where it is. */
  readonly fault: string | null
  /** It shows all that is older than this; null before it was reached. */
  readonly lagMs: number | null
}

export interface ReadReplica {
  readonly start: () => void
  readonly close: () => Promise<void>
  /** Where something of this reader may be read now; undefined: from the primary. */
  readonly take: (readerId: string) => { readonly db: Database; readonly lagMs: number } | undefined
  /** This reader has changed something, or seen it as it is now. */
  readonly saw: (readerId: string) => void
  /** It did not answer as it should. */
  readonly failed: (error: unknown) => void
  readonly stats: () => ReplicaStats
}

export interface ReadReplicaOptions {
  readonly primary: Database
  readonly replica: Database
  readonly mostLagMs: number
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
}

export function createReadReplica(options: ReadReplicaOptions): ReadReplica {
  const { clock, random, replica, mostLagMs } = options
  const stopping = new AbortController()
  const state = createState(options)
  const readers = createReaders(clock)
  let askedMs = -Infinity
  let pause = new AbortController()
  let looking: Promise<void> | undefined

  async function keepLooking(): Promise<void> {
    let failures = 0
    while (!stopping.signal.aborted) {
      failures = (await state.look()) ? 0 : failures + 1
      const idle = clock.monotonicMs() - askedMs > idleAfterMs
      const ceilingMs = Math.min(longestPauseMs, (idle ? idleLookMs : lookMs) * 2 ** Math.min(failures, 6))
      pause = new AbortController()
      await clock.sleep(
        ceilingMs * (0.5 + random.next() / 2),
        AbortSignal.any([pause.signal, stopping.signal]),
      )
    }
  }

  return {
    start() {
      looking ??= keepLooking()
    },
    async close() {
      stopping.abort()
      await looking
    },
    take(readerId) {
      const nowMs = clock.monotonicMs()
      if (nowMs - askedMs > idleAfterMs) pause.abort()
      askedMs = nowMs
      const freshMs = state.freshMs()
      const lagMs = nowMs - freshMs
      if (!state.up() || lagMs > mostLagMs || readers.sawMs(readerId) > freshMs) return undefined
      return { db: replica, lagMs }
    },
    saw: readers.saw,
    failed: (error) => state.turn(wordsOf(error)),
    stats: state.stats,
  }
}

function createState({ primary, replica, mostLagMs, clock, events }: ReadReplicaOptions) {
  /** Where the primary was, and when; what the replica has not come to yet. */
  let moments: { readonly position: bigint; readonly atMs: number }[] = []
  let timeline: number | undefined
  let freshMs = -Infinity
  let fault: string | null = 'it was not reached yet'
  let told: string | null | undefined
  let sinceMs = clock.nowMs()

  function turn(next: string | null): void {
    if ((fault === null) !== (next === null)) sinceMs = clock.nowMs()
    fault = next
    // how far it is behind changes with each look
    const kind = next?.replace(/\d+/g, '') ?? null
    if (kind === told) return
    told = kind
    events.emit('part_changed', { part: 'read_replica', state: next === null ? 'up' : 'away', fault: next })
  }

  async function askPrimary(): Promise<void> {
    const atMs = clock.monotonicMs()
    const row = await ask(primary)
    if (row.standby) throw new Error('the database itself follows another one')
    // what was written in another history was maybe never written in this one
    if (timeline !== row.timeline) moments = []
    timeline = row.timeline
    if (moments.length < mostMoments) moments.push({ position: BigInt(row.position), atMs })
  }

  async function judge(): Promise<string | null> {
    await askPrimary().catch((error: unknown) =>
      Promise.reject(new Error(`how far it is behind is not known: ${wordsOf(error)}`, { cause: error })),
    )
    const row = await ask(replica)
    if (!row.standby) return 'it is no standby'
    if (row.timeline !== timeline)
      return `it has another history (restarted in timeline ${row.timeline}, the primary is in ${timeline})`
    const position = BigInt(row.position)
    const reached = moments.findLastIndex((moment) => moment.position <= position)
    freshMs = moments[reached]?.atMs ?? freshMs
    moments = moments.slice(reached + 1)
    const lagMs = Math.round(clock.monotonicMs() - freshMs)
    if (lagMs <= mostLagMs) return null
    const far = Number.isFinite(lagMs) ? `it is ${lagMs} ms behind` : 'it is behind'
    return `${far}, and databaseReadLagMs is ${mostLagMs}`
  }

  return {
    up: () => fault === null,
    freshMs: () => freshMs,
    turn,
    /** Answers whether it may be used. */
    async look(): Promise<boolean> {
      turn(await judge().catch(wordsOf))
      return fault === null
    },
    stats: (): ReplicaStats => ({
      up: fault === null,
      sinceMs,
      fault,
      lagMs: Number.isFinite(freshMs) ? Math.round(clock.monotonicMs() - freshMs) : null,
    }),
  }
}

/** When each reader saw something as it was then. Bounded: where there are too many, all of them did. */
function createReaders(clock: Clock) {
  const seen = new Map<string, number>()
  let allMs = -Infinity
  return {
    sawMs: (readerId: string): number => Math.max(allMs, seen.get(readerId) ?? -Infinity),
    saw: (readerId: string): void => {
      const nowMs = clock.monotonicMs()
      if (seen.size >= mostReaders && !seen.has(readerId)) {
        seen.clear()
        allMs = nowMs
      }
      seen.set(readerId, nowMs)
    },
  }
}

async function ask(db: Database): Promise<ReplicationRow> {
  const [row] = await db.asLogin(readReplication, [], answerWithinMs)
  if (row === undefined) throw new Error('it does not say how far it is')
  return row
}

function wordsOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  return cause instanceof Error ? cause.message : String(cause)
}
