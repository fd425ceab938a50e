// Lists from a streaming replica: all of them work there, say how old they are at most, and never show a
// reader less than he knows. Where the replica is behind, away or no replica, they come from the primary, and
// that has a name; it heals by itself.
import { permissionsOfScopes, routes } from '@belfry/contract'
import type { Permission, Route } from '@belfry/contract'
import { expect, test } from 'vitest'
import { examineMachine } from '../../packages/server/src/compose/doctor.ts'
import { eventually } from '../support/running.ts'
import type { Arena } from './support/arena.ts'
import { arenaHarness } from './support/arena.ts'
import type { NodeProcess } from './support/node-process.ts'
import type { Standby } from './support/standby.ts'
import { startStandby } from './support/standby.ts'

const harness = arenaHarness()
const mostLagMs = 1_500

interface Reading {
  readonly arena: Arena
  readonly standby: Standby
  readonly node: NodeProcess
  readonly list: (key: string, path?: string, more?: Record<string, string>) => Promise<Listed>
}

interface Listed {
  readonly status: number
  /** Undefined: it came from the primary. */
  readonly lagMs: number | undefined
  readonly names: readonly string[]
}

async function openReading(): Promise<Reading> {
  const arena = await harness.open()
  const standby = await startStandby(harness, arena, 'async')
  const env = { DATABASE_READ_URL: standby.databaseUrl, BELFRY_DATABASE_READ_LAG_MS: String(mostLagMs) }
  const node = await arena.start('a', env)
  const list: Reading['list'] = async (key, path = '/v1/jobs', more = {}) => {
    const headers = { authorization: `Bearer ${key}`, ...more }
    const answer = await fetch(`${node.apiUrl}${path}`, { headers })
    const lag = answer.headers.get('belfry-read-lag-ms')
    const { items = [] } = (await answer.json()) as { items?: { name: string }[] }
    const names = items.map(({ name }) => name)
    return { status: answer.status, lagMs: lag === null ? undefined : Number(lag), names }
  }
  return { arena, standby, node, list }
}

/** Another key of the tenant: who reads without having written. */
async function otherKey({ arena, node }: Reading): Promise<string> {
  const made = await arena.call(node, 'POST', '/v1/keys', { name: 'reader', scopes: ['admin'] })
  return String(made.body['secret'])
}

const makeJob = ({ arena }: Reading, name: string) =>
  arena.client().jobs.create({ name, handler: { kind: 'http', url: `${arena.ledger.url}/work` } })

const fromReplica = ({ list }: Reading, key: string) =>
  eventually(async () => (await list(key)).lagMs !== undefined, 'lists come from the replica', 15_000)

async function replicaState(node: NodeProcess) {
  const ready = await fetch(`${node.opsUrl}/readyz?verbose`)
  const { checks } = (await ready.json()) as {
    checks: { name: string; status: string; message: string | null }[]
  }
  const [found] = checks.filter(({ name }) => name === 'read_replica')
  return { ready: ready.status, status: found?.status, message: found?.message ?? '' }
}

const partUp = async ({ opsUrl }: NodeProcess): Promise<string | undefined> =>
  /^belfry_part_up\{part="read_replica"\} (\d)$/m.exec(await (await fetch(`${opsUrl}/metrics`)).text())?.[1]

test('lists come from the replica, and nobody is shown less than he knows', async () => {
  const reading = await openReading()
  const { arena, standby, node, list } = reading
  const key = await otherKey(reading)
  await fromReplica(reading, key)
  expect(await partUp(node)).toBe('1')
  // a chain is judged as it is now; sessions are those of a person, whom a key has to name
  const others: readonly string[] = [routes.auditExport.path, routes.personSessionList.path]
  const lists = Object.values<Route>(routes).filter(
    ({ query, effect, path, permission }) =>
      effect === 'none' &&
      query !== undefined &&
      'cursor' in query.shape &&
      !path.includes(':') &&
      !others.includes(path) &&
      (permission === 'any_key' || permissionsOfScopes(['admin']).has(permission as Permission)),
  )
  expect(lists.length).toBeGreaterThan(10)
  for (const { path } of lists) {
    const listed = await list(key, path)
    expect([path, listed.status]).toEqual([path, 200])
    expect(listed.lagMs, path).toBeLessThanOrEqual(mostLagMs)
  }
  expect(await list(key, '/v1/jobs', { 'cache-control': 'no-cache' })).toMatchObject({ lagMs: undefined })

  await standby.rows('SELECT pg_wal_replay_pause()')
  await makeJob(reading, 'new')
  const writer = (await arena.client().jobs.list().take(10)).map(({ name }) => name)
  expect(writer, 'of who made it').toEqual(['new'])
  const reader = await list(key)
  expect(reader.names.includes('new')).toBe(reader.lagMs === undefined)
  await eventually(async () => (await list(key)).names.includes('new'), 'the bound is kept', 2 * mostLagMs)
  const behind = /not used \(it is \d+ ms behind, and databaseReadLagMs is 1500\); lists come from/
  await eventually(async () => behind.test((await replicaState(node)).message), 'it is told', 5_000)
  expect(await replicaState(node)).toMatchObject({ ready: 200, status: 'warn' })
  expect(await partUp(node)).toBe('0')

  await standby.rows('SELECT pg_wal_replay_resume()')
  await fromReplica(reading, key)
  expect((await list(key)).names).toEqual(['new'])
  expect(await replicaState(node)).toMatchObject({ ready: 200, status: 'ok' })
})

test('a replica that goes away or is promoted is not used, and no list fails', async () => {
  const reading = await openReading()
  const { standby, node, list, arena } = reading
  const key = await otherKey(reading)
  await fromReplica(reading, key)
  const env = { DATABASE_URL: arena.databaseUrl, DATABASE_READ_URL: standby.databaseUrl }
  const examined = async (name = 'read_replica', more = {}) =>
    (await examineMachine({ flags: {}, env: { ...env, ...more } })).filter((found) => found.name === name)
  expect(await examined()).toMatchObject([
    { status: 'ok', message: expect.stringMatching(/is \d+ ms behind/) as string },
  ])
  const hosts = () => examined('database_hosts', { DATABASE_URL: standby.bothUrl })
  const both = /^127\.0\.0\.1:\d+: takes writes; 127\.0\.0\.1:\d+: is a standby\.$/
  expect(await hosts()).toMatchObject([{ status: 'ok', message: expect.stringMatching(both) as string }])

  // it answers, and has a history of its own
  await standby.rows('SELECT pg_promote(true, 30)')
  await makeJob(reading, 'after')
  await eventually(
    async () => /it is no standby/.test((await replicaState(node)).message),
    'that it is no replica is told',
    15_000,
  )
  expect(await list(key)).toEqual({ status: 200, lagMs: undefined, names: ['after'] })
  expect(await examined()).toMatchObject([
    { status: 'warn', message: expect.stringMatching(/it is no standby/) as string },
  ])

  const all: Listed[] = []
  const stopped = standby.stop()
  for (let n = 0; n < 50; n += 1) all.push(await list(key))
  await stopped
  expect(all.every(({ status, names }) => status === 200 && names.includes('after'))).toBe(true)
  expect(await hosts()).toMatchObject([
    { status: 'warn', message: expect.stringMatching(/ECONNREFUSED/) as string },
  ])
  await eventually(async () => /ECONNREFUSED/.test((await replicaState(node)).message), 'it is away', 15_000)
  expect(node.log.join('\n')).not.toContain(arena.password)
})
