/**
 * A page of events on its way to the publisher. What is not taken as it is, is sent in halves, down to the
 * event that is at fault: that one is passed over, so that it does not hold back all others for ever.
 */
import type { KeyedEvent } from '../domain/cloud-event.ts'
import { type EventPublisher, EventsRefused } from '../ports/outgoing-events.ts'

export interface SkippedEvent extends KeyedEvent {
  readonly fault: EventsRefused
}

/**
 * Answers those that were passed over. Where all of a page is refused, and not for what the events are
 * themselves, the fault lies elsewhere: it throws, and nothing is passed over.
 */
export async function sendEvents(
  publisher: EventPublisher,
  events: readonly KeyedEvent[],
): Promise<readonly SkippedEvent[]> {
  const skipped = await inHalves(publisher, events)
  const [elsewhere] = skipped.filter(({ fault }) => !fault.certain)
  if (elsewhere !== undefined && skipped.length === events.length) throw elsewhere.fault
  return skipped
}

async function inHalves(
  publisher: EventPublisher,
  events: readonly KeyedEvent[],
): Promise<readonly SkippedEvent[]> {
  try {
    await publisher.publish(events)
    return []
  } catch (error) {
    if (!(error instanceof EventsRefused)) throw error
    const [first] = events
    if (first !== undefined && events.length === 1) return [{ ...first, fault: error }]
    const half = Math.ceil(events.length / 2)
    // one after the other: of each key they stay in order
    const before = await inHalves(publisher, events.slice(0, half))
    return [...before, ...(await inHalves(publisher, events.slice(half)))]
  }
}
