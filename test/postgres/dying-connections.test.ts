// A connection that the server ends in the packet that lets it in: between the pool, which takes its listener
// off as it hands the connection out, and its taker, who is told a moment later. That is an error of the
// database, and never the end of the process. The server here is a played one, so that it is one packet.
import { createServer, type Server } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Database, openDatabase } from '../../packages/server/src/postgres/database.ts'
import { realClock, realRandom } from '../support/real-clock.ts'

/** One message of the protocol: its kind, the length, the body. */
function message(kind: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5)
  head.write(kind)
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

const authenticated = message('R', Buffer.alloc(4))
const readyForQuery = message('Z', Buffer.from('I'))
const terminated = message(
  'E',
  Buffer.from('SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0'),
)

let server: Server
let db: Database
let connections = 0

beforeAll(async () => {
  server = createServer((socket) => {
    connections += 1
    socket.on('error', () => undefined)
    socket.once('data', () => socket.end(Buffer.concat([authenticated, readyForQuery, terminated])))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The server has no port.')
  const connection = { host: '127.0.0.1', port: address.port, user: 'belfry', database: 'belfry' }
  db = openDatabase({ connection, clock: realClock, random: realRandom, maxConnections: 1 })
})
afterAll(async () => {
  await db.close()
  await new Promise((resolve) => server.close(resolve))
})

it('is a database that cannot be reached, and the next caller gets another connection', async () => {
  await expect(db.ping()).rejects.toMatchObject({ code: 'database_unavailable' })
  await expect(db.ping()).rejects.toMatchObject({ code: 'database_unavailable' })
  expect([connections, db.stats().open]).toEqual([2, 0])
})
