/**
 * Makes known that schedules were paused because their runs failed, after the commit that did it: completer
 * and rescuer both end runs (postgres/failure-pauses.ts).
 */
import { shardOf } from '../domain/shard.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { PausedSchedule } from '../ports/run-store.ts'

export function tellPaused(
  { events, hints }: { readonly events: EventSink; readonly hints: Pick<Hints, 'publish'> },
  paused: readonly PausedSchedule[],
): void {
  for (const { scheduleId, tenantId, failures } of paused) {
    events.emit('schedule_paused', { scheduleId, tenantId, failures })
    hints.publish({ topic: 'timers', key: String(shardOf(scheduleId)) })
  }
}
