/**
 * Events by Kafka, both ways. Out: CloudEvents in their JSON form, to one topic, in order for each run and
 * each workflow run. In: the resolvers are a group of that topic, so that an end wakes one of them, wherever
 * it was reported. What a message says is not believed: it wakes, and what is to be done is read from the
 * record.
 */
import type { Clock } from '../../ports/clock.ts'
import type { EventBus } from '../../ports/event-bus.ts'
import type { EventSink } from '../../ports/event-sink.ts'
import { type EventPublisher, EventsRefused } from '../../ports/outgoing-events.ts'
import type { Random } from '../../ports/random.ts'
import type { InboxMessage } from './kafka-buffer.ts'
import { KafkaUnfit } from './kafka-errors.ts'
import { openKafkaInbox, type KafkaInbox } from './kafka-inbox.ts'
import type { KafkaLink } from './kafka-link.ts'
import { eventsTopic } from './kafka-topics.ts'

const headers = { 'content-type': 'application/cloudevents+json; charset=utf-8' }
const capacity = 1_000
/** Wakes of a kind come no closer together: a round takes in what came meanwhile. */
const leastWakeMs = { workflows: 20, runs: 1_000 } as const
const drainWaitMs = 10_000

/** `workflows`: a task of a workflow run has ended; `runs`: any other run, which some run may depend on. */
export type WakeKind = keyof typeof leastWakeMs

export const resolversGroup = (prefix: string): string => `${prefix}.resolvers`

export function createKafkaPublisher(link: KafkaLink): EventPublisher {
  const topic = eventsTopic(link.settings.prefix)
  return {
    get up() {
      return link.up
    },
    async publish(events) {
      await link.ensureTopics([topic])
      try {
        await link.send(
          topic,
          events.map(({ key, event }) => ({ key, value: JSON.stringify(event), headers })),
        )
      } catch (error) {
        if (!(error instanceof KafkaUnfit)) throw error
        throw new EventsRefused(error.message, error.inItself, { cause: error })
      }
    },
  }
}

export interface EventWakes {
  /** Calls `listener` when something of the kind has ended, until the returned function is called. */
  subscribe(kind: WakeKind, listener: () => void): () => void
  start(): Promise<void>
  close(): Promise<void>
}

/** Makes its member of the group when it is started; before, and while Kafka is away, it wakes nobody. */
export function createEventWakes(options: {
  readonly link: KafkaLink
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
}): EventWakes {
  const { link, clock } = options
  const topic = eventsTopic(link.settings.prefix)
  const listeners = { workflows: new Set<() => void>(), runs: new Set<() => void>() }
  const wokenAtMs = { workflows: -Infinity, runs: -Infinity }
  const ending = new AbortController()
  let draining: Promise<void> | undefined
  const inbox = openKafkaInbox({
    ...options,
    name: 'event_wakes',
    groupId: resolversGroup(link.settings.prefix),
    wants: (each) => each === topic,
    // what ended before is in the record, and is found there
    from: 'latest',
    capacity,
  })

  function wake(kind: WakeKind): void {
    if (clock.monotonicMs() - wokenAtMs[kind] < leastWakeMs[kind]) return
    wokenAtMs[kind] = clock.monotonicMs()
    for (const listener of listeners[kind]) listener()
  }
  return {
    subscribe(kind, listener) {
      listeners[kind].add(listener)
      return () => void listeners[kind].delete(listener)
    },
    async start() {
      await inbox.start()
      draining = drain(inbox, clock, ending.signal, wake)
    },
    async close() {
      ending.abort()
      await draining
      await inbox.close()
    },
  }
}

async function drain(
  inbox: KafkaInbox,
  clock: Clock,
  signal: AbortSignal,
  wake: (kind: WakeKind) => void,
): Promise<void> {
  while (!signal.aborted) {
    const messages = await inbox.take(capacity, drainWaitMs, signal)
    if (messages.length === 0) continue
    for (const kind of new Set(messages.map(kindOf))) wake(kind)
    // one that comes while it may not wake finds the next wake
    await Promise.all([inbox.commit(messages), clock.sleep(leastWakeMs.workflows, signal)])
  }
}

/** A look is enough: it only wakes. */
const kindOf = ({ value }: InboxMessage): WakeKind =>
  value?.includes('"workflowRunId":"') === true ? 'workflows' : 'runs'

/** The bus of Postgres, whose consumers are woken by Kafka too. */
export function createKafkaEventBus(postgres: EventBus, wakes: EventWakes): EventBus {
  return {
    deliver: (limits, work) => postgres.deliver(limits, work),
    onArrival(listener) {
      const offs = [postgres.onArrival(listener), wakes.subscribe('workflows', listener)]
      return () => {
        for (const off of offs) off()
      }
    },
  }
}
