// Several hosts in one connection string: who is silent or takes no writes is passed over, connections move
// on when their host fails, and what is wrong with each host is said. The hosts are doors to one real server.
import { once } from 'node:events'
import type { AddressInfo, Socket } from 'node:net'
import { connect, createServer } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { openDatabase } from '../../packages/server/src/postgres/database.ts'
import type { Database } from '../../packages/server/src/postgres/database.ts'
import { describeTarget } from '../../packages/server/src/postgres/hosts.ts'
import { migrate } from '../../packages/server/src/postgres/migrate.ts'
import { statement } from '../../packages/server/src/postgres/statement.ts'
import { waitForDatabase } from '../../packages/server/src/postgres/wait-for-database.ts'
import type { TestDatabase } from '../support/postgres.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { realClock, realRandom } from '../support/real-clock.ts'

let test: TestDatabase
const cleanUps: (() => unknown)[] = []
beforeAll(async () => void (test = await createTestDatabase()))
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp()
})
afterAll(() => test.drop())

interface Door {
  readonly port: number
  /** Connections that were let through. */
  readonly passed: () => number
  /** Hangs up on all, and lets nobody in any more. */
  readonly close: () => Promise<void>
}

/** Leads to the server, or, `silent`, says nothing at all. */
async function openDoor(silent = false): Promise<Door> {
  const sockets = new Set<Socket>()
  let passed = 0
  const { host, port } = test.connection
  const server = createServer((socket) => {
    const other = silent ? undefined : connect(`${host}/.s.PGSQL.${port}`)
    passed += 1
    for (const each of other === undefined ? [socket] : [socket, other]) {
      sockets.add(each)
      each.on('error', () => undefined)
    }
    if (other !== undefined) socket.pipe(other).pipe(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy()
    if (server.listening) await new Promise((resolve) => server.close(resolve))
  }
  cleanUps.push(close)
  return { port: (server.address() as AddressInfo).port, passed: () => passed, close }
}

const urlOf = (
  ports: readonly number[],
  { user = 'belfry', database = test.name, query = '' } = {},
): string => `postgres://${user}@${ports.map((port) => `127.0.0.1:${port}`).join(',')}/${database}${query}`

function open(connectionString: string, onMoved?: (place: string) => void): Database {
  const common = { clock: realClock, random: realRandom, maxConnections: 3 }
  const db = openDatabase({ connection: { connectionString }, ...common, onMoved })
  cleanUps.push(() => db.close())
  return db
}

const one = statement<{ one: number }>('test_one', 'SELECT 1 AS one')

describe('several hosts', () => {
  it('a host that says nothing holds nobody up', async () => {
    const [silent, door] = [await openDoor(true), await openDoor()]
    const db = open(urlOf([silent.port, door.port]))
    const beganMs = performance.now()
    expect(await db.asLogin(one, [])).toEqual([{ one: 1 }])
    expect(performance.now() - beganMs).toBeLessThan(2_500)
    expect(silent.passed()).toBeGreaterThan(0)
  })

  it('connections move on when their host fails, and back to none that does not take writes', async () => {
    const [first, second] = [await openDoor(), await openDoor()]
    const moves: string[] = []
    const db = open(urlOf([first.port, second.port]), (place) => moves.push(place))
    await Promise.all([1, 2, 3].map(() => db.asLogin(one, [])))
    expect([second.passed(), moves, db.doubts()]).toEqual([0, [], 0])
    await first.close()
    const answer = () => db.asLogin(one, []).catch(() => undefined)
    await expect.poll(answer, { timeout: 10_000 }).toEqual([{ one: 1 }])
    expect(moves).toEqual([`127.0.0.1:${second.port}`])
    expect(db.doubts()).toBeGreaterThan(0)
  })

  it('hosts of which none takes writes are named, and used as soon as one does', async () => {
    const [first, second] = [await openDoor(), await openDoor()]
    await test.sql(`ALTER DATABASE ${test.name} SET default_transaction_read_only = on`)
    cleanUps.push(() => test.sql(`ALTER DATABASE ${test.name} RESET default_transaction_read_only`))
    const url = urlOf([first.port, second.port])
    const db = open(url)
    const readOnly = [first, second].map(({ port }) => `127.0.0.1:${port}: it is read-only`)
    await expect(db.asLogin(one, [])).rejects.toMatchObject({
      code: 'database_read_only',
      cause: {
        message: `none of the hosts takes writes: ${readOnly.join('; ')}`,
      },
    })
    await first.close()
    await expect(open(url).asLogin(one, [])).rejects.toMatchObject({ code: 'database_unavailable' })
    await expect(open(`${url}?target_session_attrs=any`).asLogin(one, [])).resolves.toEqual([{ one: 1 }])
    await test.sql(`ALTER DATABASE ${test.name} RESET default_transaction_read_only`)
    const answer = () => db.asLogin(one, []).catch(() => undefined)
    await expect.poll(answer, { timeout: 10_000 }).toEqual([{ one: 1 }])
  })

  it('what is wrong on every host ends the wait at once, in the words of the server', async () => {
    const [first, second] = [await openDoor(), await openDoor()]
    const connection = { connectionString: urlOf([first.port, second.port], { database: 'no_such' }) }
    const db = open(connection.connectionString)
    const waiting = waitForDatabase({
      db,
      connection,
      clock: realClock,
      random: realRandom,
      deadlineMs: 20_000,
    })
    await expect(waiting).rejects.toMatchObject({
      code: 'invalid_config',
      message: expect.stringMatching(
        /127\.0\.0\.1:\d+ or 127\.0\.0\.1:\d+, .*"no_such" does not exist/,
      ) as string,
    })
  })

  it('migrations find the host that takes writes, and a target is told without the password', async () => {
    const [silent, door] = [await openDoor(true), await openDoor()]
    const connectionString = urlOf([silent.port, door.port], { user: 'postgres' })
    expect(await migrate({ connectionString }, { log: () => undefined })).toEqual([])
    const secret = { connectionString: 'postgres://u:hunter2@a:1,b/x' }
    expect(describeTarget(secret)).toBe('Postgres at a:1 or b:5432, database "x"')
  })
})
