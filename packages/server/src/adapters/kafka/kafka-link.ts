/**
 * The connection to Kafka, and whether it is there. Everything that Kafka does for Belfry can be done without
 * it, so nothing may wait long for it:
 *
 *   up     calls are made, each with a time limit
 *   away   after a call that no broker answered: calls fail at once, until a broker answers a question that
 *   is
 *          asked again and again, with growing, jittered pauses
 *
 * While it is up and nobody calls, it is asked each five seconds. What a broker answers with a refusal (no
 * such topic, no right to it) is the matter of the caller, and does not make it away. `generation` grows each
 * time that it comes: topics may have gone meanwhile.
 */
import type { Admin, Producer } from '@platformatic/kafka'
import type { Clock } from '../../ports/clock.ts'
import type { EventSink } from '../../ports/event-sink.ts'
import type { Random } from '../../ports/random.ts'
import { clientOptions, type KafkaSettings, requestTimeoutMs } from './kafka-client.ts'
import { isAnswer, KafkaAway, kafkaFault, KafkaTopicMissing } from './kafka-errors.ts'
import { createTopicMaker } from './kafka-topics.ts'

const probeMs = 5_000
const firstReconnectMs = 100
const longestReconnectMs = 5_000
/** A try that was not answered is the last one; those that failed at once are done again meanwhile. */
const callTimeoutMs = requestTimeoutMs + 500
const closeMs = 1_000

export interface KafkaMessage {
  /** Messages of one key stay in order. Without: spread over the partitions. */
  readonly key?: string
  readonly value: string
  readonly headers?: Readonly<Record<string, string>>
}

export interface KafkaStats {
  readonly up: boolean
  /** Local wall clock, epoch ms. */
  readonly sinceMs: number
  /** Why it is away; null where it is up. */
  readonly fault: string | null
}

export interface KafkaLink {
  readonly settings: KafkaSettings
  /** False: nothing is tried. */
  readonly up: boolean
  /** Grows each time that Kafka comes; 0 before the first. */
  readonly generation: number
  stats(): KafkaStats
  /** Calls `listener` when Kafka goes away or comes, until the returned function is called. */
  onChange(listener: (up: boolean) => void): () => void
  /**
   * Resolves when the brokers have it on record; throws `KafkaAway`, and then it may be there all the same.
   */
  send(topic: string, messages: readonly KafkaMessage[]): Promise<void>
  /** Somebody else met a broker that does not answer: it is asked at once whether Kafka is there. */
  doubt(): void
  /** Makes topics that do not exist; throws `KafkaTopicMissing`. Those that are known cost nothing. */
  ensureTopics(topics: readonly string[]): Promise<void>
  /** Throws `KafkaAway`. `topic`: that it is about. */
  admin<Answer>(work: (admin: Admin) => Promise<Answer>, topic?: string): Promise<Answer>
  /** Resolves when Kafka was reached or was given up for now; never rejects. */
  start(): Promise<void>
  close(): Promise<void>
}

export interface KafkaLinkOptions {
  readonly settings: KafkaSettings
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
}

interface Clients {
  readonly admin: Admin
  readonly producer: Producer<string, string, string, string>
}

export function createKafkaLink(options: KafkaLinkOptions): KafkaLink {
  const { settings, clock } = options
  const state = createLinkState(options)
  const ending = new AbortController()
  let clients: Clients | undefined
  let probing: Promise<void> | undefined

  async function call<Answer>(work: (clients: Clients) => Promise<Answer>, topic?: string): Promise<Answer> {
    if (!state.up || clients === undefined) throw new KafkaAway(state.fault)
    try {
      const answer = await within(clock, callTimeoutMs, work(clients))
      state.answered()
      return answer
    } catch (error) {
      const fault = kafkaFault(error, topic)
      if (fault instanceof KafkaTopicMissing) topics.forget(fault.topic)
      if (!isAnswer(fault)) state.silent(fault.message)
      throw fault
    }
  }

  const admin: KafkaLink['admin'] = (work, topic) => call((each) => work(each.admin), topic)
  const topics = createTopicMaker({ settings, clock, admin, signal: ending.signal })
  return {
    settings,
    get up() {
      return state.up
    },
    get generation() {
      return state.generation
    },
    stats: () => ({ up: state.up, sinceMs: state.sinceMs, fault: state.up ? null : state.fault }),
    onChange: (listener) => state.onChange(listener),
    send: (topic, messages) =>
      call(async ({ producer }) => {
        await producer.send({ messages: messages.map((message) => ({ ...message, topic })), acks: -1 })
      }, topic),
    doubt: () => state.doubt(),
    ensureTopics: (names) => topics.ensure(names),
    admin,
    async start() {
      clients = await openClients(settings)
      // one that died should not be found out by the next who calls
      for (const each of [clients.admin, clients.producer]) {
        each.on('client:broker:disconnect', () => state.doubt())
        each.on('error', () => state.doubt())
      }
      const parts = { ...options, state, signal: ending.signal }
      await probe(clients, parts)
      state.started()
      probing = keepProbing(clients, parts)
    },
    async close() {
      ending.abort()
      state.closed()
      const open = clients
      clients = undefined
      await within(clock, closeMs, Promise.allSettled([probing, closeClients(open)])).catch(() => undefined)
    },
  }
}

async function openClients(settings: KafkaSettings): Promise<Clients> {
  const { Admin, Producer, stringSerializers } = await import('@platformatic/kafka')
  const common = clientOptions(settings, settings.prefix)
  return {
    admin: new Admin(common),
    producer: new Producer({ ...common, serializers: stringSerializers }),
  }
}

async function closeClients(clients: Clients | undefined): Promise<void> {
  await Promise.allSettled([clients?.admin.close(), clients?.producer.close(true)])
}

type LinkState = ReturnType<typeof createLinkState>

interface Probing {
  readonly clock: Clock
  readonly random: Random
  readonly state: LinkState
  readonly signal: AbortSignal
}

/** Whether a broker answers, asked past the state that this decides. */
async function probe({ admin }: Clients, { clock, state, signal }: Probing): Promise<void> {
  try {
    await within(clock, callTimeoutMs, admin.metadata({ topics: [], forceUpdate: true, retries: 0 }))
    if (!signal.aborted) state.came()
  } catch (error) {
    const { message } = kafkaFault(error)
    if (!signal.aborted) state.silent(message)
  }
}

async function keepProbing(clients: Clients, parts: Probing): Promise<void> {
  const { clock, random, state, signal } = parts
  let failures = 0
  while (!signal.aborted) {
    const ceilingMs = Math.min(longestReconnectMs, firstReconnectMs * 2 ** Math.min(failures, 10))
    const pauseMs = state.up ? probeMs : ceilingMs * (0.5 + random.next() / 2)
    await clock.sleep(pauseMs, AbortSignal.any([signal, state.turning()]))
    if (signal.aborted) return
    if (state.up && clock.monotonicMs() - state.answeredAtMs < probeMs / 2) continue
    await probe(clients, parts)
    failures = state.up ? 0 : failures + 1
  }
}

/** Whether Kafka is there; a change of it is told. */
function createLinkState({ clock, events }: KafkaLinkOptions) {
  const listeners = new Set<(up: boolean) => void>()
  let turn = new AbortController()
  const wake = (): void => {
    turn.abort()
    turn = new AbortController()
  }
  const tell = (): void => {
    const { up, fault } = state
    events.emit('part_changed', { part: 'kafka', state: up ? 'up' : 'away', fault: up ? null : fault })
  }
  const become = (up: boolean): void => {
    if (state.up === up) return
    state.up = up
    state.sinceMs = clock.nowMs()
    tell()
    for (const listener of listeners) listener(up)
    wake()
  }
  const state = {
    generation: 0,
    up: false,
    sinceMs: clock.nowMs(),
    fault: 'it was not reached yet',
    answeredAtMs: clock.monotonicMs(),
    /** Fires at the next change, or doubt. */
    turning: () => turn.signal,
    onChange(listener: (up: boolean) => void) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    doubt() {
      state.answeredAtMs = -Infinity
      wake()
    },
    answered() {
      state.answeredAtMs = clock.monotonicMs()
    },
    came() {
      state.answeredAtMs = clock.monotonicMs()
      if (!state.up) state.generation++
      become(true)
    },
    silent(fault: string) {
      state.fault = fault
      become(false)
    },
    /** Tells at the start, too, that it is away. */
    started() {
      if (!state.up) tell()
    },
    closed() {
      state.up = false
      state.fault = 'it was closed'
      listeners.clear()
    },
  }
  return state
}

async function within<Answer>(clock: Clock, limitMs: number, work: Promise<Answer>): Promise<Answer> {
  const late = Promise.withResolvers<never>()
  const timer = clock.setTimer(limitMs, () =>
    late.reject(new KafkaAway(`it does not answer within ${limitMs} ms`)),
  )
  work.catch(() => undefined)
  try {
    return await Promise.race([work, late.promise])
  } finally {
    timer.cancel()
  }
}
