/**
 * Hints between processes over Postgres NOTIFY. One connection listens; it is not needed for anything to be
 * right, so when it breaks it is made again after a jittered pause, and where LISTEN is impossible (PgBouncer
 * in transaction mode) `databaseHints: local` leaves it out. A sender's own hints are delivered in process,
 * at once, and ignored when they come back.
 *
 * Trouble with the database comes when there is most to tell, so neither end lets a hint fall: a notice that
 * failed is sent again until one gets through, and who begins to listen, or listens again, looks everywhere.
 */
import { createDebounce } from '../engine/hint-debounce.ts'
import { parseHint } from '../engine/hint-text.ts'
import { createLocalHints } from '../engine/local-hints.ts'
import { hintsOfSilence } from '../engine/missed-hints.ts'
import type { Clock, Timer } from '../ports/clock.ts'
import type { Hint, Hints } from '../ports/hints.ts'
import type { Random } from '../ports/random.ts'
import type { Database } from './database.ts'
import type { ConnectionOptions } from './hosts.ts'
import { connectToOne, cut, hostsOf } from './hosts.ts'
import { endClient } from './pool.ts'
import { listenHints, notifyHint } from './statements/hints.ts'

const longestReconnectMs = 10_000
/** A server that is frozen lets nobody in and says nothing; a stop must not wait for it. */
const answerWithinMs = 5_000
const notifyWithinMs = 1_000
const sendAgainMs = 500
/** More than there are shards and busy queues; beyond that the oldest are let fall. */
const mostUnsent = 1_000

export interface PostgresHints extends Hints {
  start(): void
  close(): Promise<void>
}

export function createPostgresHints(options: {
  db: Database
  connection: ConnectionOptions
  clock: Clock
  random: Random
  /** Tells this process's notices from those of others. */
  senderId: string
}): PostgresHints {
  const { db, clock, random, senderId } = options
  const local = createLocalHints()
  const stopping = new AbortController()
  let listening: Promise<void> | undefined

  const notify = (hint: Hint): void => {
    db.asLogin(notifyHint, [senderId, `${hint.topic} ${hint.key}`], notifyWithinMs).then(
      (sent) => {
        // Another process sends the same; it ignores its own notice, so ours goes out with our next one.
        if (sent.length === 0) debounce.publish(hint)
        unsent.flush((each) => debounce.publish(each))
      },
      // the failure shows on every other statement
      () => unsent.keep(hint),
    )
  }
  const unsent = createUnsent(clock, random, notify)
  // what the hint sets off in this process is on its way before
  const debounce = createDebounce(clock, (hint) => void setImmediate(notify, hint))

  const heard = (payload: string): void => {
    const hint = parseHint(payload, senderId)
    if (hint !== undefined) local.deliver(hint)
  }

  const lookEverywhere = (): void => {
    for (const hint of hintsOfSilence) local.deliver(hint)
  }

  async function listen(): Promise<void> {
    let failures = 0
    while (!stopping.signal.aborted) {
      const startedMs = clock.monotonicMs()
      const ears = { begun: lookEverywhere, heard }
      await listenOnce(options.connection, clock, stopping.signal, ears).catch(() => undefined)
      if (stopping.signal.aborted) return
      failures = clock.monotonicMs() - startedMs > longestReconnectMs ? 0 : failures + 1
      const ceilingMs = Math.min(longestReconnectMs, 100 * 2 ** Math.min(failures, 10))
      await clock.sleep(ceilingMs * (0.5 + random.next() / 2), stopping.signal)
    }
  }

  return {
    publish(hint) {
      local.deliver(hint)
      debounce.publish(hint)
    },
    subscribe: (listener) => local.subscribe(listener),
    start() {
      listening ??= listen()
    },
    async close() {
      stopping.abort()
      debounce.close()
      unsent.close()
      await listening
    },
  }
}

/** Hints whose notice failed. One of them is tried again after a pause; when it gets through, all follow. */
function createUnsent(clock: Clock, random: Random, send: (hint: Hint) => void) {
  const hints = new Map<string, Hint>()
  let timer: Timer | undefined
  let closed = false
  const tryOne = (): void => {
    timer = undefined
    const [first] = hints
    if (first === undefined) return
    hints.delete(first[0])
    send(first[1])
  }
  return {
    keep(hint: Hint): void {
      if (closed) return
      hints.set(`${hint.topic} ${hint.key}`, hint)
      const [oldest] = hints.keys()
      if (hints.size > mostUnsent && oldest !== undefined) hints.delete(oldest)
      timer ??= clock.setTimer(sendAgainMs * (0.5 + random.next()), tryOne)
    },
    flush(publish: (hint: Hint) => void): void {
      const all = [...hints.values()]
      hints.clear()
      for (const hint of all) publish(hint)
    },
    close(): void {
      closed = true
      timer?.cancel()
      hints.clear()
    },
  }
}

/** Listens on a connection of its own until that ends, or until the signal. */
async function listenOnce(
  connection: ConnectionOptions,
  clock: Clock,
  stop: AbortSignal,
  { begun, heard }: { begun: () => void; heard: (payload: string) => void },
): Promise<void> {
  const settings = {
    application_name: 'belfry-hints',
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: answerWithinMs,
    query_timeout: answerWithinMs,
  }
  const { client } = await connectToOne(hostsOf(connection), settings, stop)
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()
  // there is nothing to say goodbye for, and a server that is frozen would not answer
  const onStop = (): void => {
    cut(client)
    end()
  }
  client.on('end', end)
  client.on('error', () => end())
  stop.addEventListener('abort', onStop)
  try {
    client.on('notification', ({ payload }) => heard(payload ?? ''))
    await client.query(listenHints)
    begun()
    await ended
  } finally {
    stop.removeEventListener('abort', onStop)
    await endClient(client, clock)
  }
}
