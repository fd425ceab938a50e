// The embedded server: first start, restart, ownership of the data directory, binaries, root. What unclean
// deaths leave is tested in embedded-recovery.test.ts.
import { chmodSync, cpSync, existsSync, lstatSync, mkdirSync, mkdtempSync, readdirSync } from 'node:fs'
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { findBinaries } from '../../packages/server/src/postgres/embedded/binaries.ts'
import { startEmbeddedPostgres } from '../../packages/server/src/postgres/embedded/embedded-postgres.ts'
import { ownIdentity } from '../../packages/server/src/postgres/embedded/process-identity.ts'
import { chooseRunAs } from '../../packages/server/src/postgres/embedded/unprivileged.ts'
import { embeddedHarness, query, until } from '../support/embedded-harness.ts'

const asRoot = process.getuid?.() === 0
const place = embeddedHarness()

async function freePort(): Promise<number> {
  const probe = createServer()
  await new Promise<void>((resolve) => probe.listen(0, '127.0.0.1', resolve))
  const { port } = probe.address() as AddressInfo
  await new Promise((resolve) => probe.close(resolve))
  return port
}

describe('start and stop', () => {
  it('makes a durable, private cluster at the first start', async () => {
    const server = await place.start()
    expect(server.created).toBe(true)
    const [row] = await query(
      server,
      `SELECT current_setting('server_version_num')::int / 10000 AS major, current_setting('fsync') AS fsync,
              current_setting('full_page_writes') AS pages, current_setting('listen_addresses') AS tcp,
              current_setting('server_encoding') AS encoding, current_setting('data_checksums') AS checksums`,
    )
    expect(row).toEqual({ major: 18, fsync: 'on', pages: 'on', tcp: '', encoding: 'UTF8', checksums: 'on' })
    expect(statSync(server.connection.host).mode & 0o777).toBe(0o700)
    expect(statSync(join(place.dataDir, 'postgres')).mode & 0o777).toBe(0o700)
    expect(server.tcp).toBeUndefined()
  })

  it('gives the runtime a login that owns nothing and may do nothing by itself', async () => {
    const server = await place.start()
    expect(
      await query(
        server,
        `SELECT rolsuper, rolinherit, rolbypassrls, rolcreatedb, rolcreaterole
           FROM pg_roles WHERE rolname = 'belfry'`,
      ),
    ).toEqual([
      { rolsuper: false, rolinherit: false, rolbypassrls: false, rolcreatedb: false, rolcreaterole: false },
    ])
    await expect(query({ adminConnection: server.connection }, 'CREATE TABLE mine (n int)')).rejects.toThrow(
      /permission denied/,
    )
  })

  it('keeps its data over a restart', async () => {
    const first = await place.start()
    await query(first, 'CREATE TABLE kept AS SELECT 7 AS n')
    await first.stop()
    expect(place.postmasters()).toEqual([])
    const second = await place.start()
    expect(second.created).toBe(false)
    expect(await query(second, 'SELECT n FROM kept')).toEqual([{ n: 7 }])
  })

  it('takes settings, and quotes them', async () => {
    const server = await place.start({ settings: { work_mem: '7MB', log_line_prefix: "it's %m " } })
    expect(
      await query(server, "SELECT current_setting('work_mem') AS a, current_setting('log_line_prefix') AS b"),
    ).toEqual([{ a: '7MB', b: "it's %m " }])
    await expect(
      startEmbeddedPostgres({ dataDir: `${place.dataDir}2`, log: () => undefined, settings: { 'x\ny': 1 } }),
    ).rejects.toMatchObject({
      code: 'invalid_config',
    })
  })

  it('listens on loopback only when asked, with a password from a private file', async () => {
    const port = await freePort()
    const server = await place.start({ port })
    const file = server.tcp?.passwordFile ?? ''
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const password = readFileSync(file, 'utf8').trim()
    const tcp = { host: '127.0.0.1', port, user: 'belfry', database: 'belfry' }
    expect(await query({ adminConnection: tcp }, 'SELECT 1 AS n', password)).toEqual([{ n: 1 }])
    await expect(query({ adminConnection: tcp }, 'SELECT 1', 'wrong')).rejects.toThrow(
      /authentication failed/,
    )
  })

  it('names the port when it is taken', async () => {
    const blocker = createServer()
    await new Promise<void>((resolve) => blocker.listen(0, '127.0.0.1', resolve))
    const { port } = blocker.address() as AddressInfo
    try {
      await expect(place.start({ port })).rejects.toThrow(`Port ${port} is taken`)
    } finally {
      await new Promise((resolve) => blocker.close(resolve))
    }
    expect((await place.start()).pid).toBeGreaterThan(0)
  })

  it('moves the socket to a short private directory when its path is too long', async () => {
    place.dataDir = join(place.directory, 'a'.repeat(60), 'b'.repeat(60))
    const first = await place.start()
    expect(first.connection.host.startsWith(place.dataDir)).toBe(false)
    expect(statSync(first.connection.host).mode & 0o777).toBe(0o700)
    expect(await query(first, 'SELECT 1 AS n')).toEqual([{ n: 1 }])
    await first.stop()
    expect(existsSync(first.connection.host)).toBe(false)
    const second = await place.start()
    expect(await query(second, 'SELECT 1 AS n')).toEqual([{ n: 1 }])
  })

  it('refuses a data directory of another version, and of another kind', async () => {
    const server = await place.start()
    await server.stop()
    writeFileSync(join(place.dataDir, 'postgres', 'PG_VERSION'), '17\n')
    await expect(place.start()).rejects.toThrow(/was made by Postgres 17, and this Belfry brings Postgres 18/)
    rmSync(join(place.dataDir, 'postgres', 'PG_VERSION'))
    await expect(place.start()).rejects.toThrow(/is not a Postgres data directory/)
  })

  it('starts over when initdb was killed half way', async () => {
    const half = join(place.dataDir, 'postgres.initdb-1-dead')
    mkdirSync(half, { recursive: true })
    writeFileSync(join(half, 'PG_VERSION'), '18\n')
    const owner = place.spawnOwner()
    await until('initdb is at work', () => {
      return (
        existsSync(place.dataDir) &&
        readdirSync(place.dataDir).some((name) => /^postgres\.initdb-\d{2,}-/.test(name))
      )
    })
    await owner.killHard()
    expect(existsSync(join(place.dataDir, 'postgres'))).toBe(false)
    const server = await place.start()
    expect(server.created).toBe(true)
    expect(existsSync(half)).toBe(false)
  })
})

describe('ownership', () => {
  it('refuses a second Belfry on the same data directory and names the first', async () => {
    await place.start()
    await expect(
      startEmbeddedPostgres({ dataDir: place.dataDir, log: () => undefined }),
    ).rejects.toMatchObject({
      code: 'in_use',
    })
    const owner = place.spawnOwner()
    expect(await owner.report).toMatchObject({
      code: 'in_use',
      message: expect.stringContaining(`process ${process.pid}.`) as unknown,
    })
    await owner.end()
    expect(place.postmasters()).toHaveLength(1)
  })

  it('is never given to two of several that start together', async () => {
    const starts = await Promise.allSettled([place.start(), place.start(), place.start(), place.start()])
    expect(starts.filter((each) => each.status === 'fulfilled').length).toBeLessThanOrEqual(1)
    if (place.postmasters().length === 0) await place.start()
    expect(place.postmasters()).toHaveLength(1)
  })

  it('is free again after a clean stop and after a failed start', async () => {
    const server = await place.start()
    await server.stop()
    await expect(place.start({ settings: { shared_buffers: 'nonsense' } })).rejects.toMatchObject({
      code: 'database_unavailable',
    })
    expect((await place.start()).pid).toBeGreaterThan(0)
  })

  it('is not fooled by an owner whose number another process got', async () => {
    const owned = join(place.dataDir, 'postgres-owner')
    mkdirSync(owned, { recursive: true })
    const stale = { ...ownIdentity(), start: '1' }
    writeFileSync(join(owned, `${process.pid}-aaaaaaaaaaaa.json`), JSON.stringify(stale))
    writeFileSync(join(owned, '1-bbbbbbbbbbbb.json'), '{"pid":')
    await place.start()
    expect(readdirSync(owned)).toHaveLength(1)
  })
})

describe('binaries', () => {
  // Memory may be mounted noexec, so this part works in the ordinary temporary directory.
  let folder: string

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'belfry-binaries-'))
    chmodSync(folder, 0o711)
  })
  afterEach(() => {
    rmSync(folder, { recursive: true, force: true })
  })

  it('makes the links that the install script would have made', () => {
    const copy = copyOfPackage()
    const found = findBinaries(undefined, { packageDir: copy, cacheDir: join(folder, 'cache') })
    expect(found.postgres.startsWith(copy)).toBe(true)
    expect(existsSync(join(folder, 'cache'))).toBe(false)
    expect(statSync(join(copy, 'native', 'lib', 'libpq.so.5')).isFile()).toBe(true)
  })

  it.runIf(asRoot)('copies itself to where the unprivileged user can reach it, once', () => {
    const copy = copyOfPackage()
    const cacheDir = join(folder, 'cache')
    const closed = join(folder, 'closed')
    mkdirSync(closed, { mode: 0o700 })
    cpSync(copy, join(closed, 'package'), { recursive: true, verbatimSymlinks: true })
    const runAs = chooseRunAs(join(folder, 'none'))
    const first = findBinaries(runAs, { packageDir: join(closed, 'package'), cacheDir })
    expect(first.postgres.startsWith(cacheDir)).toBe(true)
    const inode = statSync(first.postgres).ino
    const second = findBinaries(runAs, { packageDir: join(closed, 'package'), cacheDir })
    expect(statSync(second.postgres).ino).toBe(inode)
    expect(readdirSync(cacheDir)).toHaveLength(1)
  })

  it.runIf(asRoot)('refuses a cache directory that others can write to', () => {
    const closed = join(folder, 'closed')
    mkdirSync(closed, { mode: 0o700 })
    cpSync(copyOfPackage(), join(closed, 'package'), { recursive: true, verbatimSymlinks: true })
    const cacheDir = join(folder, 'cache')
    mkdirSync(cacheDir)
    chmodSync(cacheDir, 0o777)
    const runAs = chooseRunAs(join(folder, 'none'))
    expect(() => findBinaries(runAs, { packageDir: join(closed, 'package'), cacheDir })).toThrow(
      /others cannot write/,
    )
  })

  /** The package of this platform as a tarball leaves it: without links. */
  function copyOfPackage(): string {
    const native = dirname(dirname(findBinaries(undefined).postgres))
    const copy = join(folder, 'package')
    cpSync(dirname(native), copy, {
      recursive: true,
      verbatimSymlinks: true,
      filter: (path) => !path.endsWith('.a') && !lstatSync(path).isSymbolicLink(),
    })
    return copy
  }
})

describe.runIf(asRoot)('as root', () => {
  it('runs Postgres as an unprivileged user that owns the data', async () => {
    const server = await place.start()
    const status = readFileSync(`/proc/${server.pid}/status`, 'utf8')
    const uid = Number(/^Uid:\s+(\d+)/m.exec(status)?.[1])
    expect(uid).toBeGreaterThan(0)
    expect(statSync(join(place.dataDir, 'postgres')).uid).toBe(uid)
    expect(/^Groups:\s*(.*)$/m.exec(status)?.[1]?.trim().split(/\s+/)).not.toContain('0')
  })

  it('says so when that user cannot reach the data directory', async () => {
    const closed = join(place.directory, 'closed')
    mkdirSync(closed, { mode: 0o700 })
    place.dataDir = join(closed, 'deeper', 'data')
    await expect(place.start()).rejects.toThrow(/cannot enter .*data.*--data-dir \/var\/lib\/belfry/)
  })
})
