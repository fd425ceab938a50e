/**
 * What a worker hears by SQS: the long polls on the queues that it serves, and what they brought. Where the
 * worker serves every queue and each has its own in SQS, those are listed now and then.
 *
 * What nobody takes within a second, because the worker has no free slot any more, is given back to others.
 */
import type { AnnouncementInbox, TakenAnnouncement } from '../../ports/announcements.ts'
import type { Clock, Timer } from '../../ports/clock.ts'
import type { EventSink } from '../../ports/event-sink.ts'
import type { Ids } from '../../ports/ids.ts'
import type { Random } from '../../ports/random.ts'
import { SqsFault } from './sqs-fault.ts'
import type { SqsLink } from './sqs-link.ts'
import { hasQueueEach, urlOfQueue } from './sqs-queues.ts'
import { changeVisibility, deleteMessages, type SqsReceipt } from './sqs-receipts.ts'
import { createSqsReceiver, type SqsReceiver, type SqsTaken } from './sqs-receiver.ts'
import { watchQueues } from './watch-queues.ts'

/** Each has a connection of its own; the queues beyond are claimed without announcements. */
export const mostReceivers = 32
const keptMs = 1_000
const closeLimitMs = 1_500
/** Where a poll is put off for a moment, as when SQS throttles. */
const askAgainMs = 100

export interface SqsAnnouncementsOptions {
  readonly link: SqsLink
  /** The URL of the queue, or with `{queue}` in its name. */
  readonly template: string
  readonly clock: Clock
  readonly random: Random
  readonly ids: Ids
  readonly events: EventSink
}

interface SqsInboxOptions extends SqsAnnouncementsOptions {
  readonly queues: readonly string[] | '*'
}

export function openSqsInbox(options: SqsInboxOptions): AnnouncementInbox {
  const { link, clock, queues } = options
  const closing = new AbortController()
  const receivers = new Map<string, SqsReceiver>()
  const serves = (queue: string): boolean => queues === '*' || queues.includes(queue)
  const shelf = createShelf(options)

  function hear(urls: readonly string[]): void {
    for (const url of urls) {
      if (receivers.has(url) || receivers.size >= mostReceivers) continue
      const { signal } = closing
      const received = (taken: readonly SqsTaken[]): void => shelf.put(taken)
      receivers.set(url, createSqsReceiver({ ...options, url, serves, signal, received }))
    }
  }

  function hearOnly(urls: readonly string[]): void {
    for (const url of receivers.keys()) if (!urls.includes(url)) receivers.delete(url)
    hear(urls)
  }

  /** False where some could not be asked. */
  function ask(mostRuns: number): boolean {
    return [...receivers.values()].map((receiver) => receiver.poll(mostRuns)).every(Boolean)
  }

  return {
    get up() {
      return link.up && [...receivers.values()].some(({ up }) => up)
    },
    async start() {
      if (queues === '*' && hasQueueEach(options.template)) {
        await watchQueues({ ...options, signal: closing.signal, found: hearOnly })
      } else {
        hear(queues === '*' ? [options.template] : queues.map((queue) => urlOfQueue(options.template, queue)))
      }
    },
    async take(mostRuns, waitMs, signal) {
      const stop = AbortSignal.any([signal, closing.signal])
      const deadlineMs = clock.monotonicMs() + waitMs
      for (;;) {
        const taken = shelf.take(mostRuns)
        if (taken.length > 0) return taken
        const leftMs = deadlineMs - clock.monotonicMs()
        if (stop.aborted || leftMs <= 0) return []
        if (!link.up) throw new SqsFault('away', link.stats().fault ?? 'it was not reached yet')
        const asked = ask(mostRuns)
        await shelf.untilPut(asked ? leftMs : Math.min(leftMs, askAgainMs), stop)
      }
    },
    settle: (taken) => deleteMessages(link, shelf.handOver(taken)),
    release: (taken) => changeVisibility(link, shelf.handOver(taken), 0),
    async close() {
      closing.abort()
      const limit = new AbortController()
      const givenBack = changeVisibility(link, shelf.close(), 0)
      await Promise.race([givenBack, clock.sleep(closeLimitMs, limit.signal)])
      limit.abort()
    },
  }
}

/** What arrived and nobody has taken, and the receipts of what was taken and is not done with. */
function createShelf({ link, clock }: SqsInboxOptions) {
  let arrived: SqsTaken[] = []
  const inHand = new Set<SqsReceipt>()
  const wakes = new Set<() => void>()
  let givingBack: Timer | undefined

  function giveBack(): void {
    givingBack = undefined
    const left = arrived
    arrived = []
    void changeVisibility(link, receiptsOf(left), 0)
  }

  return {
    put(taken: readonly SqsTaken[]): void {
      arrived.push(...taken)
      if (arrived.length > 0) givingBack ??= clock.setTimer(keptMs, giveBack)
      for (const wake of wakes) wake()
    },
    take(mostRuns: number): readonly SqsTaken[] {
      let runs = 0
      let count = 0
      while (count < arrived.length && runs < mostRuns) runs += arrived[count++]?.runs.length ?? 0
      const taken = arrived.slice(0, count)
      arrived = arrived.slice(count)
      for (const { receipt } of taken) inHand.add(receipt)
      if (arrived.length === 0) {
        givingBack?.cancel()
        givingBack = undefined
      }
      return taken
    },
    /** The receipts of what was taken here; somebody else answers for them now. */
    handOver: (taken: readonly TakenAnnouncement[]): readonly SqsReceipt[] =>
      receiptsOf(taken).filter((receipt) => inHand.delete(receipt)),
    async untilPut(waitMs: number, stop: AbortSignal): Promise<void> {
      const put = new AbortController()
      const wake = (): void => put.abort()
      wakes.add(wake)
      await clock.sleep(waitMs, AbortSignal.any([stop, put.signal]))
      wakes.delete(wake)
    },
    /** All that nobody is done with. */
    close(): readonly SqsReceipt[] {
      givingBack?.cancel()
      return [...inHand, ...receiptsOf(arrived)]
    },
  }
}

const receiptsOf = (taken: readonly TakenAnnouncement[]): SqsReceipt[] =>
  taken.map(({ receipt }) => receipt as SqsReceipt)
