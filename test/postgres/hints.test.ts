// Hints over NOTIFY: who hears what, how few notices are sent, and that neither a server that is away nor one
// that is frozen keeps a process from stopping, or leaves anything behind in it.
import { getEventListeners } from 'node:events'
import { createServer } from 'node:net'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Hint } from '../../packages/server/src/ports/hints.ts'
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
  const hints = createPostgresHints({ db: database.open(), connection, clock, random: realRandom, senderId })
  const heard: Hint[] = []
  hints.subscribe((hint) => heard.push(hint))
  opened.push(hints)
  hints.start()
  return { hints, heard }
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

  it('that another process is sending at this moment waits for the next notice, and is not lost', async () => {
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
  const sleep = vi.fn((_ms: number, signal?: AbortSignal) => {
    if (signal !== undefined && !signals.includes(signal)) signals.push(signal)
    return realClock.sleep(1, signal)
  })
  open('x', { ...database.connection, host: '/nowhere' }, { ...realClock, sleep })
  await eventually(() => sleep.mock.calls.length > 100, 'a hundred attempts')
  // each attempt has a signal of its own for its goodbye; the one that all share is that of the stop
  const counts = signals.map((signal) => getEventListeners(signal, 'abort').length)
  expect(Math.max(...counts)).toBeLessThan(5)
})
