/**
 * How fast the runs of each queue go, as far as this process sees it: attempts that ended and the time they
 * took, added up until the node reporter takes them to the store. In memory only a bounded number of queues;
 * those beyond are left out, and are scaled by what waits and runs.
 */
import type { EngineEvents } from '@belfry/contract'
import type { EventSink } from '../ports/event-sink.ts'
import type { PaceEntry, WorkerKind } from '../ports/nodes.ts'

const mostKept = 1_000

export interface RunPace {
  /** Hands everything on to `events`, and counts the attempts that end. */
  counting(kind: WorkerKind, events: EventSink): EventSink
  /** What came together since the last call. */
  take(): readonly PaceEntry[]
  /** Puts back what could not be stored. */
  putBack(entries: readonly PaceEntry[]): void
}

export function createRunPace(): RunPace {
  let kept = new Map<string, PaceEntry>()

  function add(entry: PaceEntry): void {
    const key = `${entry.kind}/${entry.tenantId}/${entry.queue}`
    const before = kept.get(key)
    if (before === undefined && kept.size >= mostKept) return
    const attempts = entry.attempts + (before?.attempts ?? 0)
    kept.set(key, { ...entry, attempts, busyMs: entry.busyMs + (before?.busyMs ?? 0) })
  }

  return {
    counting: (kind, events) => ({
      emit(name, payload) {
        if (name === 'attempt_ended') {
          const { tenantId, queue, durationMs } = payload as EngineEvents['attempt_ended']
          add({ kind, tenantId, queue, attempts: 1, busyMs: Math.max(0, durationMs) })
        }
        events.emit(name, payload)
      },
    }),
    take() {
      const taken = [...kept.values()]
      kept = new Map()
      return taken
    },
    putBack: (entries) => entries.forEach(add),
  }
}
