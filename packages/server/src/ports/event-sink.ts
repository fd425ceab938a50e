/**
 * Where the engine's roles put their events (contract/events.ts). Emitting never throws and never waits, so a
 * listener cannot slow down or break the engine.
 */
import type { EngineEventName, EngineEvents } from '@belfry/contract'

export interface EventSink {
  emit<Name extends EngineEventName>(name: Name, payload: EngineEvents[Name]): void
}
