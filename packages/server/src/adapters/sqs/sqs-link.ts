/**
 * The client of SQS, and whether SQS is there. What it carries is a help and never the truth, so nothing may
 * wait long for it:
 *
 *   up     calls are sent, each with a time limit
 *   away   after a call that was not answered, or by somebody who does not know us: calls fail at once. After
 *          a growing, jittered pause one look at the queue tells whether it is back
 *
 * A throttled call leaves it up: whoever is throttled slows down. The SDK is loaded where this is started.
 */
import type * as SqsSdk from '@aws-sdk/client-sqs'
import type { Clock, Timer } from '../../ports/clock.ts'
import type { EventSink } from '../../ports/event-sink.ts'
import type { Random } from '../../ports/random.ts'
import { SqsFault, toSqsFault } from './sqs-fault.ts'

const callLimitMs = 3_000
const connectLimitMs = 2_000
const firstPauseMs = 200
const longestPauseMs = 30_000

export interface SqsSettings {
  /** May hold `{queue}`. */
  readonly queueUrl: string
  readonly endpoint: string
  readonly region: string
  readonly credentials: 'chain' | SqsKeys
}

export interface SqsKeys {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken: string | undefined
}

export interface SqsStats {
  readonly up: boolean
  /** Local wall clock, epoch ms. */
  readonly sinceMs: number
  /** Why it is away; null where it is up. */
  readonly fault: string | null
}

type Sdk = typeof SqsSdk

/** One call: its action for messages, the queue, and how it is made. */
export interface SqsCall<Answer> {
  readonly action: string
  readonly url: string
  readonly send: (client: SqsSdk.SQSClient, sdk: Sdk, abortSignal: AbortSignal) => Promise<Answer>
  /** How long the answer may take by itself, as that of a long poll; on top of the usual limit. */
  readonly waitMs?: number
  /** The caller does not want the answer any more. */
  readonly signal?: AbortSignal
}

export interface SqsLink {
  readonly settings: SqsSettings
  /** False: calls are not tried. */
  readonly up: boolean
  stats(): SqsStats
  /** Throws `SqsFault`. */
  call<Answer>(call: SqsCall<Answer>): Promise<Answer>
  /** Calls `listener` when it went away or came back, until the returned function is called. */
  onChange(listener: (up: boolean) => void): () => void
  /** Resolves when SQS answered or was given up for now; never rejects. */
  start(): Promise<void>
  /** Ends what is under way. */
  close(): Promise<void>
}

export interface SqsLinkOptions {
  readonly settings: SqsSettings
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
}

export function createSqsLink(options: SqsLinkOptions): SqsLink {
  const { settings, clock, events } = options
  const state = createLinkState(options)
  const caller = createCaller(options)
  const probeUrl = settings.queueUrl.replace('{queue}', 'default')
  const oneQueue = probeUrl === settings.queueUrl
  let probing: Timer | undefined

  /** With a queue for each queue, one that is missing says nothing of the others. */
  const isAway = ({ kind }: SqsFault): boolean =>
    kind === 'away' || (oneQueue && (kind === 'no_queue' || kind === 'denied'))

  function fail(fault: SqsFault): void {
    if (fault.kind === 'throttled') events.emit('part_throttled', { part: 'sqs' })
    if (!isAway(fault)) return
    state.away(fault.message)
    probing ??= clock.setTimer(state.nextPauseMs(), () => void probe())
  }

  async function probe(): Promise<void> {
    probing = undefined
    try {
      await caller.attempt(lookAt(probeUrl))
      state.up()
    } catch (error) {
      const fault = toSqsFault(error, 'GetQueueAttributes', probeUrl)
      if (fault.kind === 'ended') return
      if (isAway(fault)) fail(fault)
      else state.up()
    }
  }

  return {
    settings,
    get up() {
      return state.stats().up
    },
    stats: state.stats,
    async call(call) {
      const { up, fault } = state.stats()
      if (!up) throw new SqsFault('away', fault ?? 'it was not reached yet')
      try {
        const answer = await caller.attempt(call)
        state.worked()
        return answer
      } catch (error) {
        const fault = toSqsFault(error, call.action, call.url)
        fail(fault)
        throw fault
      }
    },
    onChange: (listener) => state.onChange(listener),
    async start() {
      await caller.open()
      await probe()
    },
    async close() {
      caller.close()
      probing?.cancel()
    },
  }
}

/** The client, and calls by it that end in time. */
function createCaller({ settings, clock }: SqsLinkOptions) {
  const closing = new AbortController()
  let made: { readonly sdk: Sdk; readonly client: SqsSdk.SQSClient } | undefined
  return {
    async open(): Promise<void> {
      const sdk = await import('@aws-sdk/client-sqs')
      made = { sdk, client: new sdk.SQSClient(clientSettings(settings)) }
    },
    async attempt<Answer>(call: SqsCall<Answer>): Promise<Answer> {
      const { action, url, waitMs = 0, signal = closing.signal } = call
      if (made === undefined) throw new SqsFault('away', 'it was not reached yet')
      const limit = new AbortController()
      const timer = clock.setTimer(callLimitMs + waitMs, () => limit.abort())
      try {
        const abortSignal = AbortSignal.any([limit.signal, signal, closing.signal])
        return await call.send(made.client, made.sdk, abortSignal)
      } catch (error) {
        if (signal.aborted || closing.signal.aborted) throw new SqsFault('ended', 'it was not waited for')
        if (limit.signal.aborted) throw new SqsFault('away', `it does not answer within ${callLimitMs} ms`)
        throw toSqsFault(error, action, url)
      } finally {
        timer.cancel()
      }
    },
    close(): void {
      closing.abort()
      made?.client.destroy()
    },
  }
}

/** Everything that the SDK would look for on the machine is said, but for the chain of credentials. */
function clientSettings({ endpoint, region, credentials }: SqsSettings) {
  return {
    endpoint,
    region,
    maxAttempts: 2,
    retryMode: 'standard',
    defaultsMode: 'standard',
    requestHandler: { connectionTimeout: connectLimitMs },
    ...(credentials === 'chain' ? {} : { credentials: withoutUndefined(credentials) }),
  } as const
}

const withoutUndefined = ({ accessKeyId, secretAccessKey, sessionToken }: SqsKeys) => ({
  accessKeyId,
  secretAccessKey,
  ...(sessionToken === undefined ? {} : { sessionToken }),
})

/** Costs as little as a call can, and tells what `doctor` wants to know. */
export function lookAt(url: string): SqsCall<Record<string, string>> {
  return {
    action: 'GetQueueAttributes',
    url,
    send: async (client, sdk, abortSignal) => {
      const command = new sdk.GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: ['All'] })
      const { Attributes } = await client.send(command, { abortSignal })
      return { ...Attributes }
    },
  }
}

/** Whether SQS is there; a change of it is told. */
function createLinkState({ clock, random, events }: SqsLinkOptions) {
  let now: SqsStats = { up: false, sinceMs: clock.nowMs(), fault: 'it was not reached yet' }
  let told = false
  let failures = 0
  const listeners = new Set<(up: boolean) => void>()

  function turn(up: boolean, fault: string | null): void {
    const changed = now.up !== up
    now = { up, sinceMs: changed ? clock.nowMs() : now.sinceMs, fault }
    // at the start, too, it is told that it is away
    if (!changed && told) return
    told = true
    events.emit('part_changed', { part: 'sqs', state: up ? 'up' : 'away', fault })
    for (const listener of listeners) listener(up)
  }
  return {
    stats: () => now,
    up: () => turn(true, null),
    away: (fault: string) => turn(false, fault),
    /** Not a look, but what it is there for: only that makes the pauses short again. */
    worked() {
      failures = 0
    },
    nextPauseMs() {
      const ceilingMs = Math.min(longestPauseMs, firstPauseMs * 2 ** Math.min(failures++, 10))
      return ceilingMs * (0.5 + random.next() / 2)
    },
    onChange(listener: (up: boolean) => void) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}
