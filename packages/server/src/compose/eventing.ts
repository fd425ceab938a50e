/**
 * Events: by Postgres alone, or besides by Kafka. Then what has ended leaves for others too, and its way out
 * wakes the resolvers. Which of them follows from `kafkaBrokers`.
 */
import {
  createEventWakes,
  createKafkaEventBus,
  createKafkaPublisher,
  type EventWakes,
} from '../adapters/kafka/kafka-events.ts'
import { createEventRelay, type EventRelay } from '../engine/event-relay.ts'
import type { Elector } from '../engine/elector.ts'
import type { Clock } from '../ports/clock.ts'
import type { EventBus } from '../ports/event-bus.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { Random } from '../ports/random.ts'
import type { Service } from '../ports/service.ts'
import type { WorkflowResolving } from '../ports/workflow-runs.ts'
import type { Database } from '../postgres/database.ts'
import { createPostgresEventBus } from '../postgres/event-bus.ts'
import { createPostgresOutgoingEvents } from '../postgres/outgoing-events.ts'
import type { Links } from './links.ts'

interface EventingParts {
  readonly links: Pick<Links, 'kafka'>
  readonly db: Database
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
  readonly hints: Hints
}

/** What wakes the resolvers of a process. */
export interface Arrivals {
  readonly bus: EventBus
  /** With the hints that runs which others depend on have ended. */
  readonly hints: Hints
  readonly services: readonly Service[]
}

export function openArrivals(parts: EventingParts, resolving: WorkflowResolving): Arrivals {
  const { hints, links } = parts
  const postgres = createPostgresEventBus({ resolving, hints })
  if (links.kafka === undefined) return { bus: postgres, hints, services: [] }
  const wakes = createEventWakes({ ...parts, link: links.kafka })
  return {
    bus: createKafkaEventBus(postgres, wakes),
    hints: withWakes(hints, wakes),
    services: [{ name: 'event_wakes', start: () => wakes.start(), stop: () => wakes.close() }],
  }
}

function withWakes(hints: Hints, wakes: EventWakes): Hints {
  return {
    publish: (hint) => hints.publish(hint),
    subscribe(listener) {
      const offs = [
        hints.subscribe(listener),
        wakes.subscribe('runs', () => listener({ topic: 'dependencies', key: 'any' })),
      ]
      return () => {
        for (const off of offs) off()
      }
    },
  }
}

/** Of a scheduler; none where nobody listens beside Belfry. */
export function openEventRelay(
  parts: EventingParts,
  elector: Pick<Elector, 'heldShards'>,
): EventRelay | undefined {
  const { kafka } = parts.links
  if (kafka === undefined) return undefined
  const installation = kafka.settings.prefix
  const outgoing = createPostgresOutgoingEvents(parts.db, `kafka:${installation}`)
  const publisher = createKafkaPublisher(kafka)
  return createEventRelay({ ...parts, outgoing, publisher, installation, elector })
}
