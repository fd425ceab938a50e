/** Where the engine's roles put their events. Emitting never throws and never waits. */
import type { EngineEventName, EngineEvents } from '@belfry/contract'

export interface EventSink {
  emit<Name extends EngineEventName>(name: Name, payload: EngineEvents[Name]): void
}
