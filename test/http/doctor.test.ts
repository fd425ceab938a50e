// `belfry doctor` against a real database, a real API and folders of all kinds: what is wrong is named, with
// what to do; nothing is changed; and what does not answer is not waited for.
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { BUNDLED_ZONES_VERSION } from '../../packages/server/src/adapters/zones/bundled-zones.generated.ts'
import { runAlone } from '../cli/support/cli.ts'
import { startTestApi, type TestApi } from '../support/api.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { newId } from '../support/running.ts'
import { makeZoneTree, removeZoneTrees } from '../support/zone-trees.ts'

type Check = {
  readonly name: string
  readonly status: 'ok' | 'warn' | 'fail'
  readonly message: string
  readonly fix: string | null
}

let t: TestApi
let home: string
let url: string
/** Nothing listens there. */
let closedPort: number
beforeAll(async () => {
  t = await startTestApi()
  closedPort = await freePort()
  home = mkdtempSync(join(tmpdir(), 'belfry-doctor-'))
  url = await t.api.listen({ host: '127.0.0.1', port: 0 })
})
afterAll(async () => {
  rmSync(home, { recursive: true, force: true })
  removeZoneTrees()
  await t.close()
})

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

const urlOf = ({ connection, name }: TestDatabase, user = 'belfry') =>
  `postgres://${user}@${encodeURIComponent(connection.host)}:${connection.port}/${name}`

async function doctor(env: Readonly<Record<string, string>> = {}, ...argv: string[]) {
  const settled = { XDG_CONFIG_HOME: join(home, 'config'), BELFRY_DATA_DIR: join(home, 'none'), TZ: 'UTC' }
  const { code, out, err } = await runAlone(['doctor', '-o', 'json', ...argv], {
    env: { ...settled, ...env },
    now: () => Date.now(),
  })
  expect(err).toBe('')
  const { status, checks } = JSON.parse(out) as { status: string; checks: readonly Check[] }
  expect(code).toBe(status === 'fail' ? 1 : 0)
  return { status, named: (name: string) => checks.find((check) => check.name === name), checks }
}

describe('the server that it speaks to', () => {
  const withKey = (key: string) => ({ BELFRY_URL: url, BELFRY_API_KEY: key })

  it('is told of: key, scopes, versions, clock, zone data', async () => {
    const { named } = await doctor(withKey(t.adminKey))
    expect(named('api')).toMatchObject({ status: 'ok', message: `The API answers at ${url}.` })
    expect(named('api_key')).toMatchObject({
      status: 'ok',
      message: expect.stringContaining('admin') as string,
    })
    // the API of this test says it is another version
    expect(named('server_version')).toMatchObject({
      status: 'warn',
      message: expect.stringContaining('0.0.0-test') as string,
    })
    expect(named('server_clock')).toMatchObject({ status: 'ok' })
    expect(named('server_zone_data')).toMatchObject({
      status: 'ok',
      message: expect.stringContaining('zone data 20') as string,
    })
    expect(named('server_replans')).toBeUndefined()
  })

  it('is told of with the replans that are open, to a key of the platform', async () => {
    const key = await t.keyFor('acme', ['platform'])
    const text = `INSERT INTO belfry.replan (id, kind, subject, to_version, state, total, done, moved)
      VALUES ($1, 'zone', 'Europe/Berlin', '2099a', 'running', 10, 4, 3)`
    await t.database.sql(text, [newId()])
    const { named } = await doctor({ ...withKey(key), DATABASE_URL: urlOf(t.database) })
    const message = 'Europe/Berlin 4 of 10 schedules, 3 moved'
    for (const name of ['server_replans', 'replans'])
      expect(named(name)).toMatchObject({ status: 'ok', message: expect.stringContaining(message) as string })
  })

  it('does not take a bad key, and may not be there', async () => {
    expect((await doctor(withKey('bfy_wrong_key_0123456789'))).named('api_key')).toMatchObject({
      status: 'fail',
      fix: expect.stringContaining('belfry key create') as string,
    })
    const gone = await doctor({ BELFRY_URL: `http://127.0.0.1:${closedPort}`, BELFRY_API_KEY: 'bfy_x' })
    expect(gone.named('api')).toMatchObject({
      status: 'fail',
      message: expect.stringContaining('ECONNREFUSED') as string,
    })
  })

  it('without a key is at least looked for; one that nobody named need not be there', async () => {
    const reached = await doctor({ BELFRY_URL: url })
    expect(reached.named('api')).toMatchObject({ status: 'ok' })
    expect(reached.named('api_key')).toMatchObject({ status: 'warn' })
    const fetch = () => Promise.reject(new TypeError('fetch failed'))
    const { code, out } = await runAlone(['doctor', '-o', 'json'], {
      fetch,
      env: { XDG_CONFIG_HOME: home, BELFRY_DATA_DIR: join(home, 'none') },
      now: () => Date.now(),
    })
    expect(code).toBe(0)
    expect(out).toContain('belfry dev')
  })
})

describe('the database of a server here', () => {
  it('that fits, on record', async () => {
    await t.database.sql(
      `INSERT INTO belfry.zone_data (zone, rules_from, data_version, changed_in)
       VALUES ('Europe/Berlin', now(), '2026a', '2026a')`,
    )
    const { named } = await doctor({ DATABASE_URL: urlOf(t.database) })
    expect(named('database')).toMatchObject({
      status: 'ok',
      message: expect.stringContaining('Postgres 18') as string,
    })
    expect(named('database_clock')).toMatchObject({ status: 'ok' })
    expect(named('schema')).toMatchObject({
      status: 'ok',
      message: expect.stringMatching(/\d{4}_/) as string,
    })
    expect(named('database_rights')).toMatchObject({ status: 'ok' })
    expect(named('zone_data_on_record')).toMatchObject({
      status: 'ok',
      message: 'Future times are computed with zone data 2026a.',
    })
    expect(named('data_directory')).toBeUndefined()
    await t.database.sql(`UPDATE belfry.zone_data SET data_version = '2099z'`)
    const newer = await doctor({ DATABASE_URL: urlOf(t.database) })
    expect(newer.named('zone_data_on_record')).toMatchObject({
      status: 'warn',
      fix: expect.stringContaining('tzdata') as string,
    })
  })

  it('that a superuser serves', async () => {
    const { named } = await doctor({ DATABASE_URL: urlOf(t.database, 'postgres') })
    expect(named('database_rights')).toMatchObject({
      status: 'warn',
      message: expect.stringContaining('superuser') as string,
    })
  })

  it('that is empty, behind, read-only, or not there', async () => {
    const empty = await createTestDatabase({ empty: true })
    try {
      expect((await doctor({ DATABASE_URL: urlOf(empty) })).named('schema')).toMatchObject({
        status: 'fail',
        message: expect.stringContaining('belfry server migrate') as string,
      })
      const soon = await doctor({ DATABASE_URL: urlOf(empty), BELFRY_MIGRATE_AT_START: 'true' })
      expect(soon.named('schema')).toMatchObject({ status: 'warn' })
      await empty.sql(`ALTER DATABASE ${empty.name} SET default_transaction_read_only = on`)
      expect((await doctor({ DATABASE_URL: urlOf(empty) })).named('database')).toMatchObject({
        status: 'fail',
        fix: expect.stringContaining('primary') as string,
      })
    } finally {
      await empty.drop()
    }
    const { named, status } = await doctor({
      DATABASE_URL: `postgres://belfry:geheim@127.0.0.1:${closedPort}/belfry`,
    })
    expect(status).toBe('fail')
    expect(named('database')?.message).toMatch(/127\.0\.0\.1:\d+.*ECONNREFUSED/)
    expect(JSON.stringify(named('database'))).not.toContain('geheim')
  })
})

describe('this machine', () => {
  it('has a Node and zone data that are named', async () => {
    const { named } = await doctor()
    expect(named('node')).toMatchObject({ status: 'ok', message: expect.stringContaining('Node ') as string })
    const older = makeZoneTree({ version: '2001a', zones: ['UTC'] })
    expect((await doctor({ BELFRY_ZONE_DIRECTORY: older })).named('zone_data')).toMatchObject({
      status: 'ok',
      message:
        `Zone data ${BUNDLED_ZONES_VERSION} from the data in the package; the system's copy (${older}) is ` +
        '2001a, which is older.',
    })
    const newer = makeZoneTree({ version: '2099a', zones: ['UTC'] })
    expect((await doctor({ BELFRY_ZONE_DIRECTORY: newer })).named('zone_data')).toMatchObject({
      status: 'ok',
      message: `Zone data 2099a from ${newer}; the package has ${BUNDLED_ZONES_VERSION}.`,
    })
  })

  it('may have a configuration that is not valid, which ends the look at the rest of it', async () => {
    const file = join(home, 'belfry.yaml')
    writeFileSync(file, 'prot: 5\n')
    const { named } = await doctor({}, '--config', file)
    expect(named('config')).toMatchObject({
      status: 'fail',
      message: expect.stringContaining('did you mean port?') as string,
    })
    expect(named('data_directory')).toBeUndefined()
  })

  it('has a data directory: to be made, in use, open to others, or a file', async () => {
    const dataDir = join(home, 'data')
    const look = async () => (await doctor({}, '--data-dir', dataDir)).named('data_directory')
    expect(await look()).toMatchObject({
      status: 'ok',
      message: expect.stringContaining('makes it') as string,
    })
    expect(existsSync(dataDir)).toBe(false)
    mkdirSync(dataDir, { mode: 0o700 })
    expect(await look()).toMatchObject({ status: 'ok', message: expect.stringContaining('uid') as string })
    chmodSync(dataDir, 0o755)
    expect(await look()).toMatchObject({ status: 'warn', fix: `Run: chmod go-rw ${dataDir}` })
    rmSync(dataDir, { recursive: true })
    writeFileSync(dataDir, '')
    expect(await look()).toMatchObject({ status: 'fail' })
    const { named } = await doctor()
    expect(named('disk')).toMatchObject({ message: expect.stringMatching(/GiB are free/) as string })
  })

  it('has contexts, which may name one that is not there or be open to others', async () => {
    const config = join(home, 'contexts')
    const file = join(config, 'belfry', 'contexts.yaml')
    mkdirSync(join(config, 'belfry'), { recursive: true })
    const look = async (text: string, mode = 0o600) => {
      writeFileSync(file, text)
      chmodSync(file, mode)
      const env = { XDG_CONFIG_HOME: config, BELFRY_URL: url, BELFRY_API_KEY: t.adminKey }
      return (await doctor(env)).named('contexts')
    }
    const one = `current: a\ncontexts:\n  a:\n    url: ${url}\n`
    expect(await look(one)).toMatchObject({
      status: 'ok',
      message: expect.stringContaining('one context') as string,
    })
    expect(await look(one.replace('current: a', 'current: b'))).toMatchObject({ status: 'fail' })
    expect(await look('contexts: [')).toMatchObject({ status: 'fail' })
  })
})

describe('what does not answer', () => {
  let silent: Server
  const sockets = new Set<Socket>()
  let port: number
  beforeAll(async () => {
    silent = createServer((socket) => sockets.add(socket))
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    port = (silent.address() as AddressInfo).port
  })
  afterAll(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => silent.close(resolve))
  })

  it('is given up within seconds, all at the same time', async () => {
    const startedMs = performance.now()
    const { named } = await doctor({
      DATABASE_URL: `postgres://belfry@127.0.0.1:${port}/belfry`,
      BELFRY_URL: `http://127.0.0.1:${port}`,
      BELFRY_API_KEY: 'bfy_x',
    })
    expect(named('database')).toMatchObject({ status: 'fail' })
    expect(named('api')).toMatchObject({ status: 'fail' })
    expect(performance.now() - startedMs).toBeLessThan(20_000)
  })
})

it('changes nothing', async () => {
  const before = await t.counts()
  await doctor({ DATABASE_URL: urlOf(t.database), BELFRY_URL: url, BELFRY_API_KEY: t.adminKey })
  expect(await t.counts()).toEqual(before)
  expect(existsSync(join(home, 'none'))).toBe(false)
  expect(existsSync(join(home, 'config'))).toBe(false)
})

it('is for people too: a line a thing, and what to do below it', async () => {
  const { code, out } = await runAlone(['doctor'], {
    env: {
      XDG_CONFIG_HOME: home,
      BELFRY_DATA_DIR: join(home, 'none'),
      BELFRY_URL: `http://127.0.0.1:${closedPort}`,
    },
    now: () => Date.now(),
  })
  expect(code).toBe(1)
  expect(out).toMatch(/^ok {4}node +Node /)
  expect(out).toMatch(/^fail {2}api +No Belfry answers at http:\/\/127\.0\.0\.1:\d+ \(.*\)\.\n +fix: /m)
})
