/**
 * Announcements by Kafka: a topic for each queue, made when something of it is announced for the first
 * time. All workers are one group, in which each reads the topics of the queues that it serves. Without an
 * order key messages are spread over the partitions, and so over the workers.
 *
 * Committed is what was claimed; a member that dies leaves the rest to the others. A worker that gets no
 * partition, because there are more workers than partitions, claims directly (engine/announced-queue.ts).
 */
import { announcementText, parseAnnouncement } from '../../engine/announcement-text.ts'
import {
  type Announcement,
  type AnnouncementInbox,
  type Announcements,
  CarrierAway,
  maxRunsOfAnnouncement,
  type TakenAnnouncement,
} from '../../ports/announcements.ts'
import type { Clock } from '../../ports/clock.ts'
import type { EventSink } from '../../ports/event-sink.ts'
import type { Random } from '../../ports/random.ts'
import type { InboxMessage } from './kafka-buffer.ts'
import { isAnswer, KafkaAway, KafkaTopicsFull } from './kafka-errors.ts'
import { openKafkaInbox } from './kafka-inbox.ts'
import type { KafkaLink, KafkaMessage } from './kafka-link.ts'
import { runsPrefix, runsTopic } from './kafka-topics.ts'
import { createSettledOffsets } from './settled-offsets.ts'

/** Messages that are held ahead of those that are taken. */
const capacity = 200
/** That there are too many queues for it is told with one of them, no more often. */
const fullToldMs = 30_000

export interface KafkaAnnouncementsOptions {
  readonly link: KafkaLink
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
}

export const workersGroup = (prefix: string): string => `${prefix}.workers`

export function createKafkaAnnouncements(options: KafkaAnnouncementsOptions): Announcements {
  const { link, events, clock } = options
  const { prefix } = link.settings
  let fullToldAtMs = -Infinity

  function isNews(fault: KafkaAway): boolean {
    if (!(fault instanceof KafkaTopicsFull)) return true
    if (clock.monotonicMs() - fullToldAtMs < fullToldMs) return false
    fullToldAtMs = clock.monotonicMs()
    return true
  }

  /** False where this queue cannot be carried; others may. */
  async function send(queue: string, its: readonly Announcement[]): Promise<boolean> {
    const topic = runsTopic(prefix, queue)
    try {
      await link.ensureTopics([topic])
      await link.send(topic, its.map(toMessage))
      return true
    } catch (error) {
      if (!(error instanceof KafkaAway)) throw error
      if (!isAnswer(error)) throw new CarrierAway(error.message, { cause: error })
      if (isNews(error)) events.emit('carrier_refused', { part: 'kafka', at: topic, fault: error.message })
      return false
    }
  }

  return {
    get up() {
      return link.up
    },
    get generation() {
      return link.generation
    },
    async announce(announcements) {
      const byQueue = [...Map.groupBy(announcements, (each) => each.queue)]
      const sent = await Promise.allSettled(byQueue.map(([queue, its]) => send(queue, its)))
      const refused = byQueue.flatMap(([queue], index) => {
        const answer = sent[index]
        if (answer?.status === 'rejected') throw answer.reason
        return answer?.value === true ? [] : [queue]
      })
      return { refused }
    },
    open: (queues) => openInbox(options, queues),
  }
}

function toMessage(announcement: Announcement): KafkaMessage {
  const value = announcementText(announcement)
  const { orderKey } = announcement
  return orderKey === undefined ? { value } : { key: orderKey, value }
}

/** Undefined: it is none of ours, or stands in the topic of another queue. */
function readMessage(prefix: string, { topic, value }: InboxMessage): Announcement | undefined {
  const announcement = parseAnnouncement(value)
  if (announcement === undefined || runsTopic(prefix, announcement.queue) !== topic) return undefined
  return announcement
}

function openInbox(options: KafkaAnnouncementsOptions, queues: readonly string[] | '*'): AnnouncementInbox {
  const { link, events } = options
  const { prefix } = link.settings
  const topics = queues === '*' ? undefined : new Set(queues.map((queue) => runsTopic(prefix, queue)))
  const inbox = openKafkaInbox({
    ...options,
    name: 'announcements',
    groupId: workersGroup(prefix),
    wants: (topic) => (topics === undefined ? topic.startsWith(runsPrefix(prefix)) : topics.has(topic)),
    // a topic that nobody has committed to is new; also the first of it, unsettled, has to come again
    from: 'earliest',
    capacity,
  })
  const offsets = createSettledOffsets<InboxMessage>()

  async function settle(messages: readonly InboxMessage[]): Promise<void> {
    const upTo = offsets.settle(messages)
    if (upTo.length > 0) await inbox.commit(upTo)
  }

  return {
    get up() {
      return inbox.up
    },
    start: () => inbox.start(),
    async take(mostRuns, waitMs, signal) {
      const taken: TakenAnnouncement[] = []
      const garbage: InboxMessage[] = []
      let left = mostRuns
      for (let leftMs = waitMs; left > 0; leftMs = 0) {
        const messages = await inbox.take(Math.ceil(left / maxRunsOfAnnouncement), leftMs, signal)
        if (messages.length === 0) break
        offsets.took(messages)
        for (const message of messages) {
          const announcement = readMessage(prefix, message)
          if (announcement === undefined) garbage.push(message)
          else taken.push({ ...announcement, receipt: message })
          left -= announcement?.runs.length ?? 1
        }
      }
      for (const [topic, { length: count }] of Map.groupBy(garbage, (each) => each.topic)) {
        events.emit('announcements_discarded', { part: 'kafka', at: topic, count })
      }
      if (garbage.length > 0) void settle(garbage)
      return taken
    },
    settle: (taken) => settle(taken.map(({ receipt }) => receipt as InboxMessage)),
    // what is not committed goes to others when this member has left
    release: () => Promise.resolve(),
    close: () => inbox.close(),
  }
}
