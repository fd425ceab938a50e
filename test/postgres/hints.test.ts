// Hints over NOTIFY: who hears what, how few notices are sent, and that neither a server that is away nor one
// that is frozen keeps a process from stopping, or leaves anything behind in it.
import { getEventListeners } from 'node:events'
import { createServer } from 'node:net'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Clock } from '../../packages/server/src/ports/clock.ts'
import type { Hint } from '../../packages/server/src/ports/hints.ts'
import { hintsOfSilence } from '../../packages/server/src/engine/missed-hints.ts'
import type { PostgresHints } from '../../packages/server/src/postgres/hints.ts'
import { createPostgresHints } from '../../packages/server/src/postgres/hints.ts'
import type { TestConnection, TestDatabase } from '../support/postgres.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { eventually } from '../support/running.ts'

const ready: Hint = { topic: 'ready', key: 'default' }

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

const opened: PostgresHints[] = []
afterEach(async () => {
  for (const hints of opened.splice(0)) await hints.close()
})

function open(senderId: string, connection: TestConnection = database.connection, clock = realClock) {
  const db = database.open()
  const hints = createPostgresHints({ db, connection, clock, random: realRandom, senderId })
  const heard: Hint[] = []
  const found: Hint[] = []
  // what it tells itself when it begins to listen is told apart
  hints.subscribe((hint) => (hintsOfSilence.includes(hint) ? found : heard).push(hint))
  opened.push(hints)
  hints.start()
  return { hints, heard, found, db }
}

const listeners = () =>
  database.sql<{ pid: number }>(
    `SELECT pid FROM pg_stat_activity
     WHERE application_name = 'belfry-hints' AND datname = current_database() AND query LIKE 'LISTEN%'`,
  )
const listening = (count: number) =>
  eventually(async () => (await listeners()).length === count, `${count} processes listen`)

describe('a hint', () => {
  it('reaches others by notice, and its sender once', async () => {
    const [a, b] = [open('a'), open('b')]
    await listening(2)
    a.hints.publish(ready)
    await eventually(() => b.heard.length > 0, 'the other hears it')
    b.hints.publish({ topic: 'timers', key: '7' })
    await eventually(() => a.heard.length > 1, 'and the first one hears the other')
    expect(a.heard).toEqual([ready, { topic: 'timers', key: '7' }])
    expect(b.heard).toEqual(a.heard)
  })

  it('that another process is sending now waits for the next notice, and is not lost', async () => {
    const [a, b] = [open('a'), open('b')]
    await listening(2)
    const sender = new pg.Client(database.adminConnection)
    await sender.connect()
    try {
      await sender.query('BEGIN')
      const key = "hashtextextended('belfry.hint:ready default', 0)"
      await sender.query(`SELECT pg_advisory_xact_lock(${key})`)
      a.hints.publish(ready)
      a.hints.publish({ topic: 'ready', key: 'another' })
      await eventually(() => b.heard.length > 0, 'a hint of another key')
      expect(b.heard).toEqual([{ topic: 'ready', key: 'another' }])
      await sender.query('COMMIT')
      await eventually(() => b.heard.length > 1, 'the hint that waited')
      expect(b.heard.at(-1)).toEqual(ready)
    } finally {
      await sender.end()
    }
  })
})

const cutListeners = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE application_name = 'belfry-hints' AND datname = current_database()`

describe('trouble with the database', () => {
  it('makes who listens again look everywhere: a hint may have gone by', async () => {
    const { found } = open('a')
    await eventually(() => found.length === hintsOfSilence.length, 'it looks as it begins to listen')
    await database.sql(cutListeners)
    await eventually(() => found.length === 2 * hintsOfSilence.length, 'and as it listens again')
    expect(found.slice(hintsOfSilence.length)).toEqual(hintsOfSilence)
  })

  it('lets no hint fall: what could not be sent goes out with the first that can', async () => {
    const [a, b] = [open('a'), open('b')]
    await listening(2)
    const send = a.db.asLogin
    let fails = 6
    const failing = vi.spyOn(a.db, 'asLogin').mockImplementation((...args: Parameters<typeof send>) => {
      return fails-- > 0 ? Promise.reject(new Error('away')) : send(...args)
    })
    const hints = ['1', '2', '3', '4'].map((key): Hint => ({ topic: 'timers', key }))
    for (const hint of hints) a.hints.publish(hint)
    await eventually(() => b.heard.length >= hints.length, 'all of them')
    const byKey = (one: Hint, other: Hint): number => Number(one.key) - Number(other.key)
    expect(b.heard.toSorted(byKey)).toEqual(hints)
    // four at once, two alone, one alone that gets through, and with it the others
    expect(failing).toHaveBeenCalledTimes(10)
  })
})

describe('close', () => {
  it('ends at once when the server is frozen', async () => {
    const { hints } = open('x')
    await listening(1)
    const [backend] = await listeners()
    const pid = backend?.pid ?? 0
    process.kill(pid, 'SIGSTOP')
    try {
      const startedMs = performance.now()
      await hints.close()
      expect(performance.now() - startedMs).toBeLessThan(1_500)
    } finally {
      process.kill(pid, 'SIGCONT')
    }
  })

  it('ends at once when the server takes a connection and says nothing', async () => {
    const connected = Promise.withResolvers<void>()
    const silent = createServer((socket) => {
      socket.resume()
      connected.resolve()
    })
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    const { port } = silent.address() as { port: number }
    const { hints } = open('x', { ...database.connection, host: '127.0.0.1', port })
    await connected.promise
    const startedMs = performance.now()
    await hints.close()
    expect(performance.now() - startedMs).toBeLessThan(1_500)
    await new Promise((resolve) => silent.close(resolve))
  })
})

it('many attempts to listen leave nothing behind', async () => {
  const signals: AbortSignal[] = []
  const sleep = vi.fn<Clock['sleep']>((_, signal) => {
    if (signal !== undefined && !signals.includes(signal)) signals.push(signal)
    return realClock.sleep(1, signal)
  })
  open('x', { ...database.connection, host: '/nowhere' }, { ...realClock, sleep })
  await eventually(() => sleep.mock.calls.length > 100, 'a hundred attempts')
  // each attempt has a signal of its own for its goodbye; the one that all share is that of the stop
  const counts = signals.map((signal) => getEventListeners(signal, 'abort').length)
  expect(Math.max(...counts)).toBeLessThan(5)
})
