/**
 * The long poll on one SQS queue. One poll at a time, and only when a taker asks for something; it goes on
 * when the taker has stopped waiting, for a poll that is cut off may take messages with it.
 *
 *   well-formed, of a queue that is served here   handed over
 *   well-formed, of another queue                 given back after a pause, so that another worker gets it;
 *                                                 deleted where it has gone round too often
 *   anything else                                 given back, too, where the queue has a dead-letter queue:
 *                                                 SQS moves it there, for people to see; else deleted
 */
import type { Message } from '@aws-sdk/client-sqs'
import { parseAnnouncement } from '../../engine/announcement-text.ts'
import type { TakenAnnouncement } from '../../ports/announcements.ts'
import type { Clock } from '../../ports/clock.ts'
import type { EventSink } from '../../ports/event-sink.ts'
import type { Random } from '../../ports/random.ts'
import { type SqsFault, toSqsFault } from './sqs-fault.ts'
import { type SqsLink, lookAt } from './sqs-link.ts'
import { changeVisibility, deleteMessages, type SqsReceipt } from './sqs-receipts.ts'

/** The longest that SQS lets one wait, and the most that it hands over. */
const pollSeconds = 20
const mostMessages = 10
/** How long nobody else gets what was received: longer than a worker keeps it (engine/announced-queue.ts). */
const holdSeconds = 40
/** Longer each time: what nobody wants goes round slowly. */
const passOnSeconds = (rounds: number): number => Math.min(longestPassSeconds, 2 * rounds)
const longestPassSeconds = 10
/** As often a message goes round among workers that do not serve its queue. */
const mostRounds = 5
const firstPauseMs = 200
const longestPauseMs = 30_000
/** How long it is believed whether a queue has a dead-letter queue. */
const knownMs = 60_000

export interface SqsTaken extends TakenAnnouncement {
  readonly receipt: SqsReceipt
}

export interface SqsReceiver {
  readonly url: string
  /** False: nothing is heard of this queue for now. */
  readonly up: boolean
  /** Begins a poll where none is under way; answers whether one is. */
  poll(mostRuns: number): boolean
}

export interface SqsReceiverOptions {
  readonly link: SqsLink
  readonly url: string
  readonly serves: (queue: string) => boolean
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
  /** Ends a poll that is under way. */
  readonly signal: AbortSignal
  /** A poll is over. */
  readonly received: (taken: readonly SqsTaken[]) => void
}

export function createSqsReceiver(options: SqsReceiverOptions): SqsReceiver {
  const { link, url, clock, random, signal, received } = options
  const discard = createDiscard(options)
  let polling = false
  let failures = 0
  let resumeAtMs = 0
  let fault: SqsFault['kind'] | undefined
  let runsOfMessage = 1

  async function pollOnce(mostRuns: number): Promise<readonly SqsTaken[]> {
    const count = Math.ceil(mostRuns / runsOfMessage)
    const messages = await receive(link, url, Math.min(mostMessages, Math.max(1, count)), signal)
    failures = 0
    fault = undefined
    const taken = discard(messages)
    const runs = taken.reduce((sum, each) => sum + each.runs.length, 0)
    if (taken.length > 0) runsOfMessage = (runsOfMessage + runs / taken.length) / 2
    return taken
  }

  function failed(error: unknown): readonly SqsTaken[] {
    fault = toSqsFault(error, 'ReceiveMessage', url).kind
    const ceilingMs = Math.min(longestPauseMs, firstPauseMs * 2 ** Math.min(failures++, 10))
    resumeAtMs = clock.monotonicMs() + ceilingMs * (0.5 + random.next() / 2)
    return []
  }

  return {
    url,
    get up() {
      return fault === undefined || fault === 'throttled' || clock.monotonicMs() >= resumeAtMs
    },
    poll(mostRuns) {
      if (polling) return true
      if (signal.aborted || clock.monotonicMs() < resumeAtMs) return false
      polling = true
      void pollOnce(mostRuns)
        .catch(failed)
        .then((taken) => {
          // first, so that whoever is woken can ask again
          polling = false
          received(taken)
        })
      return true
    },
  }
}

async function receive(link: SqsLink, url: string, most: number, signal: AbortSignal): Promise<Message[]> {
  const { Messages } = await link.call({
    action: 'ReceiveMessage',
    url,
    waitMs: pollSeconds * 1_000,
    signal,
    send: (client, sdk, abortSignal) =>
      client.send(
        new sdk.ReceiveMessageCommand({
          QueueUrl: url,
          MaxNumberOfMessages: most,
          WaitTimeSeconds: pollSeconds,
          VisibilityTimeout: holdSeconds,
          MessageSystemAttributeNames: ['ApproximateReceiveCount'],
        }),
        { abortSignal },
      ),
  })
  return Messages ?? []
}

/** Gets rid of what is not for this worker, and answers the rest. */
function createDiscard({ link, url, serves, clock, events }: SqsReceiverOptions) {
  let looked: { readonly hasDeadLetterQueue: boolean; readonly untilMs: number } | undefined

  async function hasDeadLetterQueue(): Promise<boolean> {
    if (looked === undefined || looked.untilMs < clock.monotonicMs()) {
      const attributes = await link.call(lookAt(url))
      const has = attributes['RedrivePolicy'] !== undefined
      looked = { hasDeadLetterQueue: has, untilMs: clock.monotonicMs() + knownMs }
    }
    return looked.hasDeadLetterQueue
  }

  async function refuse(poison: readonly SeenReceipt[]): Promise<void> {
    events.emit('announcements_discarded', { part: 'sqs', at: url, count: poison.length })
    // without an answer they stay, and come again
    const kept = await hasDeadLetterQueue().catch(() => true)
    await (kept ? passOn(poison) : deleteMessages(link, poison))
  }

  async function passOn(receipts: readonly SeenReceipt[]): Promise<void> {
    const bySeconds = Map.groupBy(receipts, ({ rounds }) => passOnSeconds(rounds))
    for (const [seconds, some] of bySeconds) await changeVisibility(link, some, seconds)
  }

  return (messages: readonly Message[]): readonly SqsTaken[] => {
    const taken: SqsTaken[] = []
    const poison: SeenReceipt[] = []
    const foreign: SeenReceipt[] = []
    for (const { Body, ReceiptHandle, Attributes } of messages) {
      if (ReceiptHandle === undefined) continue
      const rounds = Number(Attributes?.ApproximateReceiveCount ?? 1)
      const receipt = { url, handle: ReceiptHandle, rounds }
      const announcement = parseAnnouncement(Body)
      if (announcement === undefined) poison.push(receipt)
      else if (serves(announcement.queue)) taken.push({ ...announcement, receipt })
      else foreign.push(receipt)
    }
    const worn = foreign.filter(({ rounds }) => rounds >= mostRounds)
    // none of it is waited for: what is ours must not be held up by what is not
    if (poison.length > 0) void refuse(poison)
    void passOn(foreign.filter((receipt) => !worn.includes(receipt)))
    void deleteMessages(link, worn)
    return taken
  }
}

type SeenReceipt = SqsReceipt & { readonly rounds: number }
