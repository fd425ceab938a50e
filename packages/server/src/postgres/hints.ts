/**
 * Hints between processes over Postgres NOTIFY. One connection listens; it is not needed for anything to be
 * right, so when it breaks it is made again after a jittered pause, and where LISTEN is impossible (PgBouncer
 * in transaction mode) `databaseHints: local` leaves it out. A sender's own hints are delivered in process,
 * at once, and ignored when they come back.
 */
import pg from 'pg'
import { createLocalHints } from '../engine/local-hints.ts'
import type { Clock } from '../ports/clock.ts'
import type { Hint, Hints } from '../ports/hints.ts'
import type { Random } from '../ports/random.ts'
import type { Database } from './database.ts'
import { createDebounce } from './debounce.ts'
import type { ConnectionOptions } from './pool.ts'
import { cut, endClient } from './pool.ts'
import { listenHints, notifyHint } from './statements/hints.ts'

const longestReconnectMs = 10_000
/** A server that is frozen lets nobody in and says nothing; a stop must not wait for it. */
const answerWithinMs = 5_000
const topics: ReadonlySet<string> = new Set<Hint['topic']>([
  'ready',
  'timers',
  'cancel',
  'shards',
  'replans',
  'backfills',
  'gate',
  'watch',
  'run',
  'workflows',
  'dependencies',
])

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

  const debounce = createDebounce(clock, (hint) => {
    const notified = db.run({ role: 'belfry_engine', timeoutMs: 1_000 }, notifyHint, [
      senderId,
      `${hint.topic} ${hint.key}`,
    ])
    notified
      .then((sent) => {
        // Another process sends the same; it ignores its own notice, so ours goes out with our next one.
        if (sent.length === 0) debounce.publish(hint)
      })
      // a lost hint costs latency only, and the failure shows on every other statement
      .catch(() => undefined)
  })

  const heard = (payload: string): void => {
    const hint = parseHint(payload, senderId)
    if (hint !== undefined) local.deliver(hint)
  }

  async function listen(): Promise<void> {
    let failures = 0
    while (!stopping.signal.aborted) {
      const startedMs = clock.monotonicMs()
      await listenOnce(options.connection, clock, stopping.signal, heard).catch(() => undefined)
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
      await listening
    },
  }
}

/** Listens on a connection of its own until that ends, or until the signal. */
async function listenOnce(
  connection: ConnectionOptions,
  clock: Clock,
  stop: AbortSignal,
  heard: (payload: string) => void,
): Promise<void> {
  const client = new pg.Client({
    ...connection,
    application_name: 'belfry-hints',
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: answerWithinMs,
    query_timeout: answerWithinMs,
  })
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
    await client.connect()
    client.on('notification', ({ payload }) => heard(payload ?? ''))
    await client.query(listenHints)
    await ended
  } finally {
    stop.removeEventListener('abort', onStop)
    await endClient(client, clock)
  }
}

/** A notice of another process; undefined for one's own and for anything that is no hint. */
export function parseHint(payload: string, ownId: string): Hint | undefined {
  const [sender, topic, key, ...rest] = payload.split(' ')
  if (sender === ownId || topic === undefined || key === undefined || rest.length > 0) return undefined
  return topics.has(topic) ? ({ topic, key } as Hint) : undefined
}
