/**
 * Runs that are announced over Kafka or SQS, where one of them is configured: the announcer of a scheduler,
 * and the queue that a worker claims from. Without one nothing of it is there.
 */
import { createKafkaAnnouncements } from '../adapters/kafka/kafka-announcements.ts'
import { createSqsAnnouncements } from '../adapters/sqs/sqs-announcements.ts'
import { type Announcer, createAnnouncer } from '../engine/announcer.ts'
import { type AnnouncedQueue, createAnnouncedQueue } from '../engine/announced-queue.ts'
import type { Elector } from '../engine/elector.ts'
import type { Announcements } from '../ports/announcements.ts'
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { Ids } from '../ports/ids.ts'
import type { Random } from '../ports/random.ts'
import type { RunQueue } from '../ports/run-queue.ts'
import type { Database } from '../postgres/database.ts'
import { createPostgresReadyWindows } from '../postgres/ready-windows.ts'
import { createPostgresAnnouncedRuns, createPostgresRunQueue } from '../postgres/run-queue.ts'
import type { Links } from './links.ts'

interface CarrierParts {
  readonly links: Pick<Links, 'kafka' | 'sqs'>
  readonly clock: Clock
  readonly random: Random
  readonly ids: Ids
  readonly events: EventSink
}

/** Undefined where runs are claimed without being announced. */
export function openAnnouncements(parts: CarrierParts): Announcements | undefined {
  const { kafka, sqs } = parts.links
  if (kafka !== undefined) return createKafkaAnnouncements({ ...parts, link: kafka })
  return sqs && createSqsAnnouncements({ ...parts, link: sqs, template: sqs.settings.queueUrl })
}

interface AnnouncingParts {
  readonly db: Database
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
  readonly hints: Hints
}

/** What a worker claims from, and what wakes it. */
export interface WorkerQueue {
  readonly queue: RunQueue
  readonly hints: Hints
  /** Undefined where runs are not announced. To be started before the worker, and stopped with it. */
  readonly announced?: AnnouncedQueue | undefined
}

export function openWorkerQueue(
  parts: AnnouncingParts,
  announcements: Announcements | undefined,
  queues: readonly string[] | '*',
  slots: number,
): WorkerQueue {
  const { db, hints } = parts
  const queue = createPostgresRunQueue(db)
  if (announcements === undefined) return { queue, hints }
  const announced = createAnnouncedQueue({
    ...parts,
    queue,
    runs: createPostgresAnnouncedRuns(db),
    inbox: announcements.open(queues),
    slots,
  })
  return { queue: announced, hints: announced.withHints(hints), announced }
}

export function openAnnouncer(
  parts: AnnouncingParts,
  announcements: Announcements | undefined,
  elector: Pick<Elector, 'heldShards'>,
): Announcer | undefined {
  if (announcements === undefined) return undefined
  const windows = createPostgresReadyWindows(parts.db)
  const { maxQueues } = announcements
  return createAnnouncer({ ...parts, announcements, elector, windows, maxQueues })
}
