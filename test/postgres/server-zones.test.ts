// Whole servers with different zone data on one database: the newer one computes future times again, both say
// on their ops port and by their API how they stand, and the log tells the story.
import { Writable } from 'node:stream'
import { createClient } from '@belfry/sdk'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { makeOwnerKey } from '../../packages/server/src/compose/first-key.ts'
import type { BelfryServer } from '../../packages/server/src/compose/server.ts'
import { startServer } from '../../packages/server/src/compose/server.ts'
import { loadConfig } from '../../packages/server/src/config/load.ts'
import { createLogger } from '../../packages/server/src/telemetry/logger.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { eventually } from '../support/running.ts'
import { fixedZone, makeZoneTree, removeZoneTrees } from '../support/zone-trees.ts'

type Line = Readonly<Record<string, unknown>>
type Verbose = {
  readonly status: string
  readonly checks: readonly {
    readonly name: string
    readonly status: string
    readonly message: string | null
    readonly facts?: Readonly<Record<string, unknown>>
  }[]
}

let database: TestDatabase
let lines: Line[]
const servers: BelfryServer[] = []

beforeEach(async () => {
  database = await createTestDatabase()
  lines = []
})
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop()
  removeZoneTrees()
  await database.drop()
})

const destination = new Writable({
  write(chunk: Buffer, _encoding, done) {
    for (const line of chunk.toString().trim().split('\n')) lines.push(JSON.parse(line) as Line)
    done()
  },
})

/** Berlin is so many hours ahead of UTC. */
async function start(version: string, hours: number): Promise<BelfryServer> {
  const altered = { 'Europe/Berlin': fixedZone(hours) }
  const zoneDirectory = makeZoneTree({ version, zones: ['Asia/Tokyo'], altered })
  const { host, port } = database.connection
  const databaseUrl = `postgres://belfry@${encodeURIComponent(host)}:${port}/${database.name}`
  const { config } = loadConfig({ flags: { databaseUrl, zoneDirectory, port: 0, opsPort: 0, drainMs: 500 } })
  const logger = createLogger({ level: 'info', version: '0', destination })
  const server = await startServer({ config, logger })
  servers.push(server)
  return server
}

async function named(server: BelfryServer, name: string) {
  const answer = await fetch(`${server.opsUrl}/readyz?verbose`)
  const { checks } = (await answer.json()) as Verbose
  return checks.find((check) => check.name === name)
}
const events = (name: string) => lines.filter(({ event }) => event === name)

it('of which a newer one joins an older one', async () => {
  const older = await start('2098a', 1)
  const { key } = await makeOwnerKey(older.store.db, 'acme', 'test')
  const client = createClient({ url: older.apiUrl ?? '', apiKey: key })
  await eventually(
    async () => (await named(older, 'zone_data'))?.facts?.['newestOnRecord'] === '2098a',
    'record',
  )
  await client.jobs.create({ name: 'job', handler: { kind: 'http', url: 'https://example.com/' } })
  const make = (name: string, zone: string) =>
    client.schedules.create({ name, job: 'job', cron: '0 9 1 1 *', zone })
  const berlin = await make('berlin', 'Europe/Berlin')
  const tokyo = await make('tokyo', 'Asia/Tokyo')
  expect(berlin).toMatchObject({
    zoneDataVersion: '2098a',
    nextAt: expect.stringContaining('-01-01T08:00') as string,
  })

  const newer = await start('2098b', 3)
  await eventually(
    async () => (await client.schedules.get(berlin.id)).zoneDataVersion === '2098b',
    'the replan',
  )
  const moved = await client.schedules.get(berlin.id)
  expect(moved.nextAt).toContain('-01-01T06:00')
  expect(await client.schedules.get(tokyo.id)).toEqual(tokyo)

  await eventually(() => events('replan_ended').length > 0, 'the log')
  expect(events('zone_data_changed')).toMatchObject([
    { level: 'info', fromVersion: '2098a', toVersion: '2098b', zones: ['Europe/Berlin'], source: 'system' },
  ])
  expect(events('replan_ended')).toMatchObject([
    { level: 'info', kind: 'zone', subject: 'Europe/Berlin', total: 1, done: 1, moved: 1, failed: 0 },
  ])
  expect(
    (await client.replans.list().take(5)).map(({ zone, state, moved: count }) => [zone, state, count]),
  ).toEqual([['Europe/Berlin', 'done', 1]])
  expect(await client.server()).toMatchObject({ zoneData: { version: '2098a', newestOnRecord: '2098b' } })
  expect(await named(newer, 'zone_data')).toMatchObject({
    status: 'ok',
    facts: { version: '2098b', source: 'system', newestOnRecord: '2098b' },
  })
  expect(await named(older, 'zone_data')).toMatchObject({
    status: 'warn',
    message: expect.stringContaining('another scheduler came with 2098b') as string,
  })
  expect(await named(newer, 'replans')).toMatchObject({ facts: { open: 0 } })
})

it('of which an older one comes later: it says so, and what was computed stays', async () => {
  const newer = await start('2098b', 3)
  await eventually(
    async () => (await named(newer, 'zone_data'))?.facts?.['newestOnRecord'] === '2098b',
    'record',
  )
  const older = await start('2098a', 1)
  await eventually(() => events('zone_data_differs').length > 0, 'the log')
  expect(events('zone_data_differs')).toMatchObject([
    { level: 'warn', version: '2098a', newest: '2098b', zones: ['Europe/Berlin'] },
  ])
  expect(await named(older, 'zone_data')).toMatchObject({
    status: 'warn',
    message: expect.stringContaining('differs in Europe/Berlin') as string,
    facts: { differingZones: ['Europe/Berlin'], newestOnRecord: '2098b' },
  })
  const metrics = await (await fetch(`${older.opsUrl}/metrics`)).text()
  expect(metrics).toContain('belfry_zone_data_differing_zones 1\n')
})

it('tell what they hold: server, schema, shards and terms, session, clock', async () => {
  const server = await start('2098a', 1)
  await eventually(async () => (await named(server, 'scheduler'))?.status === 'ok', 'the shards')
  await eventually(async () => (await named(server, 'worker_session'))?.status === 'ok', 'the session')
  expect(await named(server, 'database_server')).toMatchObject({ facts: { readOnly: false } })
  const version = expect.stringMatching(/^\d{4}_\w+$/) as string
  expect(await named(server, 'schema_version')).toMatchObject({ facts: { version } })
  const scheduler = await named(server, 'scheduler')
  expect(scheduler?.facts).toMatchObject({ role: true, shards: 64, shardsInAll: 64 })
  expect(Object.keys(scheduler?.facts?.['terms'] ?? {})).toHaveLength(64)
  expect((await named(server, 'worker_session'))?.facts).toMatchObject({ role: true, slots: 50, busy: 0 })
  expect(await named(server, 'clock_skew')).toMatchObject({ status: 'ok' })
})
