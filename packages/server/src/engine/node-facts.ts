/**
 * What this process tells of itself besides who it is, gathered from the engine's events: parts that it does
 * without at present, and how late its fires were in the last minute.
 */
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { DatabaseClock } from './database-clock.ts'
import type { PartFault } from '../ports/nodes.ts'

const lagMemoryMs = 60_000
const lagBucketMs = 5_000

export interface NodeFacts {
  /** Subscribe it to the engine's events. */
  readonly events: EventSink
  parts(databaseClock: Pick<DatabaseClock, 'nowMs'>): readonly PartFault[]
  /** Null: nothing was fired. */
  lagMs(): number | null
}

interface Away {
  readonly state: string
  readonly fault: string | null
  readonly sinceMs: number
}

export function createNodeFacts(clock: Clock): NodeFacts {
  const away = new Map<string, Away>()
  /** The largest lateness of each few seconds. */
  let lags: readonly { readonly atMs: number; readonly lateMs: number }[] = []

  const recentLags = () => lags.filter(({ atMs }) => clock.monotonicMs() - atMs < lagMemoryMs)

  function noteLag(lateMs: number): void {
    const last = lags.at(-1)
    const atMs = clock.monotonicMs()
    if (last !== undefined && atMs - last.atMs < lagBucketMs)
      lags = [...lags.slice(0, -1), { ...last, lateMs: Math.max(last.lateMs, lateMs) }]
    else lags = [...recentLags(), { atMs, lateMs }]
  }

  return {
    events: {
      emit(name, payload) {
        // a fan-out hands on the payload that belongs to the name
        if (name === 'part_changed' && 'part' in payload && 'state' in payload) {
          const { part, state, fault } = payload
          if (state === 'up') away.delete(part)
          else away.set(part, { state, fault, sinceMs: away.get(part)?.sinceMs ?? clock.monotonicMs() })
        }
        if (name === 'occurrences_fired' && 'outcomes' in payload && payload.durationMs !== null) {
          const late = payload.outcomes.filter(({ outcome }) => outcome === 'ran').map((each) => each.lateMs)
          if (late.length > 0) noteLag(Math.max(...late))
        }
      },
    },
    parts: (databaseClock) =>
      [...away].map(([part, { state, fault, sinceMs }]) => ({
        part,
        state,
        fault,
        since_ms: Math.round(databaseClock.nowMs() - (clock.monotonicMs() - sinceMs)),
      })),
    lagMs() {
      const recent = recentLags().map(({ lateMs }) => lateMs)
      return recent.length === 0 ? null : Math.max(...recent)
    },
  }
}
