/**
 * Announcements by SQS: one message each, ten a call. In a FIFO queue those of one order key are a group, all
 * others a group of their own, so that none waits for another; each message has an id of its own against
 * doubles, for the same runs are announced again where nobody claimed them.
 */
import { createHash } from 'node:crypto'
import { announcementText } from '../../engine/announcement-text.ts'
import { type Announcement, type Announcements, CarrierAway } from '../../ports/announcements.ts'
import { SqsFault } from './sqs-fault.ts'
import { mostReceivers, openSqsInbox, type SqsAnnouncementsOptions } from './sqs-inbox.ts'
import type { SqsLink } from './sqs-link.ts'
import { hasQueueEach, isFifo, urlOfQueue } from './sqs-queues.ts'

/** What one call may hold. */
const messagesOfCall = 10
/** Calls under way at a time for queues in which the order of messages is nobody's promise. */
const callsAtOnce = 4
const tries = 3
const pauseMs = 150
/** How long a queue that is not there, or not for us, is left alone. */
const refusedMs = 30_000

interface Entry {
  readonly Id: string
  readonly MessageBody: string
  readonly MessageGroupId?: string
  readonly MessageDeduplicationId?: string
}

export function createSqsAnnouncements(options: SqsAnnouncementsOptions): Announcements {
  const { link, template, clock } = options
  let generation = 0
  link.onChange((up) => {
    if (up) generation++
  })
  /** By URL, when it may be tried again; monotonic ms. */
  const refusedUntilMs = new Map<string, number>()

  /** False where this queue cannot be sent to; others may. */
  async function sendTo(url: string, announcements: readonly Announcement[]): Promise<boolean> {
    if ((refusedUntilMs.get(url) ?? 0) > clock.monotonicMs()) return false
    refusedUntilMs.delete(url)
    try {
      const calls = inCalls(announcements.map((each) => toEntry(url, each, options)))
      const width = isFifo(url) ? 1 : callsAtOnce
      for (let at = 0; at < calls.length; at += width) {
        await Promise.all(calls.slice(at, at + width).map((entries) => sendCall(url, entries, options)))
      }
      return true
    } catch (error) {
      const ofThisQueue = error instanceof SqsFault && (error.kind === 'no_queue' || error.kind === 'denied')
      if (!ofThisQueue || !hasQueueEach(template)) throw error
      refusedUntilMs.set(url, clock.monotonicMs() + refusedMs)
      options.events.emit('carrier_refused', { part: 'sqs', at: url, fault: error.message })
      return false
    }
  }

  return {
    get up() {
      return link.up
    },
    get generation() {
      return generation
    },
    async announce(announcements) {
      const byUrl = Map.groupBy(announcements, ({ queue }) => urlOfQueue(template, queue))
      const refused = new Set<string>()
      for (const [url, ofUrl] of byUrl) {
        if (await sendTo(url, ofUrl)) continue
        for (const { queue } of ofUrl) refused.add(queue)
      }
      return { refused: [...refused] }
    },
    ...(options.template.includes('{queue}') ? { maxQueues: mostReceivers } : {}),
    open: (queues) => openSqsInbox({ ...options, queues }),
  }
}

function inCalls(entries: readonly Entry[]): readonly (readonly Entry[])[] {
  const calls: Entry[][] = []
  for (let at = 0; at < entries.length; at += messagesOfCall)
    calls.push(entries.slice(at, at + messagesOfCall))
  return calls
}

function toEntry(url: string, announcement: Announcement, { ids, clock }: SqsAnnouncementsOptions): Entry {
  const id = ids.uuidv7(clock.nowMs())
  const entry = { Id: id, MessageBody: announcementText(announcement) }
  if (!isFifo(url)) return entry
  const { queue, orderKey } = announcement
  const group = orderKey === undefined ? id : groupOf(queue, orderKey)
  return { ...entry, MessageGroupId: group, MessageDeduplicationId: id }
}

/** A key may hold letters that SQS does not take, and be what nobody else should read. */
function groupOf(queue: string, orderKey: string): string {
  return createHash('sha256').update(`${queue}\n${orderKey}`).digest('hex')
}

/** Sends again what SQS took not, or did not take because there was too much; then gives up. */
async function sendCall(
  url: string,
  entries: readonly Entry[],
  { link, clock, random }: SqsAnnouncementsOptions,
): Promise<void> {
  let left = entries
  let words = ''
  for (let attempt = 1; attempt <= tries && left.length > 0; attempt++) {
    if (attempt > 1) await clock.sleep(pauseMs * attempt * (0.5 + random.next()))
    try {
      const failed = await sendOnce(link, url, left)
      words = failed[0]?.Message ?? failed[0]?.Code ?? ''
      const ids = new Set(failed.map(({ Id }) => Id))
      left = left.filter(({ Id }) => ids.has(Id))
    } catch (error) {
      if (!(error instanceof SqsFault) || error.kind !== 'throttled' || attempt === tries) throw error
    }
  }
  if (left.length > 0) throw new CarrierAway(`SQS did not take ${left.length} of the messages: ${words}`)
}

async function sendOnce(link: SqsLink, url: string, entries: readonly Entry[]) {
  const { Failed } = await link.call({
    action: 'SendMessage',
    url,
    send: (client, sdk, abortSignal) =>
      client.send(new sdk.SendMessageBatchCommand({ QueueUrl: url, Entries: [...entries] }), { abortSignal }),
  })
  return Failed ?? []
}
