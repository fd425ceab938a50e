/**
 * One sink for the engine's roles, many listeners: log, metrics, and what else subscribes. A listener that
 * throws hurts neither the others nor the role.
 */
import type { EventSink } from '../ports/event-sink.ts'

/** `onFault` is told of what a listener threw; it must not throw. */
export function createEventFanOut(sinks: readonly EventSink[], onFault: (error: unknown) => void): EventSink {
  return {
    emit(name, payload) {
      for (const sink of sinks) {
        try {
          sink.emit(name, payload)
        } catch (error) {
          onFault(error)
        }
      }
    },
  }
}
