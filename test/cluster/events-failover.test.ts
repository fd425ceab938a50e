// Events over a failover to an asynchronous standby: it gives the numbers of transactions out again that the
// relay has passed already, and what ends under them is told all the same.
import { expect, test } from 'vitest'
import type { CloudEvent } from '@belfry/contract'
import { createEventRelay } from '../../packages/server/src/engine/event-relay.ts'
import { openDatabase } from '../../packages/server/src/postgres/database.ts'
import { createPostgresOutgoingEvents } from '../../packages/server/src/postgres/outgoing-events.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { eventually, recordEvents } from '../support/running.ts'
import { arenaHarness } from './support/arena.ts'
import { startStandby } from './support/standby.ts'

const harness = arenaHarness()
const burnt = 20_000

test('what ends after a failover is told, though its numbers were passed before', async () => {
  const arena = await harness.open()
  const standby = await startStandby(harness, arena, 'async')
  await arena.start('a', { DATABASE_URL: standby.bothUrl })
  const client = arena.client()
  const handler = { kind: 'http', url: `${arena.ledger.url}/work` } as const
  await client.jobs.create({ name: 'it', handler, retry: { maxAttempts: 20, baseMs: 200, capMs: 1_000 } })

  const told: CloudEvent[] = []
  const hasTold = (ids: readonly string[]) => ids.every((id) => told.some(({ subject }) => subject === id))
  const connection = { connectionString: standby.bothUrl }
  const db = openDatabase({ connection, clock: realClock, random: realRandom, maxConnections: 2 })
  const outgoing = createPostgresOutgoingEvents(db, 'test')
  const relay = createEventRelay({
    outgoing,
    publisher: { up: true, publish: async (events) => void told.push(...events.map(({ event }) => event)) },
    installation: 'belfry',
    elector: { heldShards: () => Array.from({ length: 64 }, (_, shard) => ({ shard, term: 1 })) },
    clock: realClock,
    random: realRandom,
    events: recordEvents(),
  })
  await relay.start()
  harness.defer(async () => {
    await relay.stop()
    await db.close()
  })
  const run = async (): Promise<readonly string[]> => {
    const made = await Promise.all(Array.from({ length: 5 }, () => client.runs.create({ job: 'it' })))
    return made.map(({ id }) => id)
  }
  const before = await run()
  await eventually(() => hasTold(before), 'what ends before is told', 30_000)

  await standby.caughtUp()
  await standby.holdBack()
  await arena.rows(
    `DO $$ BEGIN FOR n IN 1..${burnt} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$`,
  )
  const lost = await run()
  await eventually(() => hasTold(lost), 'what will be lost is told', 30_000)
  const next = async (): Promise<number> => {
    const [row] = await arena.rows<{ next: string }>('SELECT pg_snapshot_xmax(pg_current_snapshot()) AS next')
    return Number(row?.next)
  }
  const passed = await next()
  await eventually(async () => (await outgoing.position()).position.number >= passed, 'it is noted', 10_000)

  await standby.killPrimary()
  await standby.promote()
  const node = arena.nodes.get('a')
  const ready = async () => (await fetch(`${node?.opsUrl}/readyz`)).status === 200
  await eventually(() => ready().catch(() => false), 'the server is ready again', 60_000)
  const after = await run()
  await eventually(() => hasTold(after), 'what ends after is told', 60_000)
  expect(await next(), 'the numbers were given out again').toBeLessThan(passed)
})
