// For tests of the embedded server: a fresh data directory for each test, servers in this process and in
// processes that can be killed, and after each test the proof that no postmaster was left.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { chmodSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { afterEach, beforeEach } from 'vitest'
import type {
  EmbeddedPostgres,
  EmbeddedPostgresOptions,
} from '../../packages/server/src/postgres/embedded/embedded-postgres.ts'
import { startEmbeddedPostgres } from '../../packages/server/src/postgres/embedded/embedded-postgres.ts'
import { listProcesses } from '../../packages/server/src/postgres/embedded/process-identity.ts'
import { makeFastDirectory } from './temporary-directory.ts'

const fixture = fileURLToPath(new URL('../postgres/fixtures/embedded-owner.ts', import.meta.url))

/** What the process of an owner says: the server it runs, or why it could not start one. */
export type OwnerReport = { readonly pid: number; readonly code?: string; readonly message?: string }

export type Owner = {
  readonly report: Promise<OwnerReport>
  /** kill -9, and wait for its end. */
  readonly killHard: () => Promise<void>
  /** Lets it stop its server and end. */
  readonly end: () => Promise<void>
}

/** One test's place. A test may set `dataDir` to another path below `directory` before it starts a server. */
export type EmbeddedHarness = {
  directory: string
  dataDir: string
  /** What the servers of `start` logged. */
  words: string[]
  readonly start: (more?: Partial<EmbeddedPostgresOptions>) => Promise<EmbeddedPostgres>
  readonly spawnOwner: () => Owner
  /** Pids of postmasters on the data directory. */
  readonly postmasters: () => number[]
  /** Pids of the shells that stop a postmaster when its Belfry dies. */
  readonly watchdogs: () => number[]
}

/** Call once at the top of a test file. */
export function embeddedHarness(): EmbeddedHarness {
  const servers: EmbeddedPostgres[] = []
  const owners: Owner[] = []
  const harness: EmbeddedHarness = {
    directory: '',
    dataDir: '',
    words: [],
    start: async (more = {}) => {
      const log = (_level: string, message: string) => void harness.words.push(message)
      const server = await startEmbeddedPostgres({ dataDir: harness.dataDir, log, ...more })
      servers.push(server)
      return server
    },
    spawnOwner: () => {
      const owner = spawnOwner(harness.dataDir)
      owners.push(owner)
      return owner
    },
    postmasters: () => postmastersOn(join(harness.dataDir, 'postgres')),
    watchdogs: () => {
      const mark = `belfry-watchdog ${join(harness.dataDir, 'postgres')} `
      return listProcesses().flatMap(({ pid, command }) => (command.includes(mark) ? [pid] : []))
    },
  }
  beforeEach(() => {
    harness.directory = makeFastDirectory('belfry-embedded')
    // It was made for its owner alone, and for root Postgres runs as somebody else.
    chmodSync(harness.directory, 0o711)
    harness.dataDir = join(harness.directory, 'data')
    harness.words = []
  })
  afterEach(async () => {
    for (const owner of owners.splice(0)) await owner.end()
    for (const server of servers.splice(0)) await server.stop()
    const left = harness.postmasters()
    rmSync(harness.directory, { recursive: true, force: true })
    if (left.length > 0) throw new Error(`Postmasters were left running: ${left.join(', ')}`)
  })
  return harness
}

export async function until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 30_000
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`Waited in vain until ${what}`)
    await wait(20)
  }
}

/** One query on a connection of its own, as the superuser unless another connection is given. */
export async function query(
  server: Pick<EmbeddedPostgres, 'adminConnection'>,
  text: string,
  password?: string,
): Promise<unknown[]> {
  const client = new pg.Client({ ...server.adminConnection, ...(password === undefined ? {} : { password }) })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(text)).rows
  } finally {
    await client.end()
  }
}

function spawnOwner(dataDir: string): Owner {
  const child = spawn(process.execPath, ['--conditions=source', fixture, dataDir], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  const report = readReport(child)
  // A test that kills the owner early does not wait for the report.
  report.catch(() => undefined)
  return {
    report,
    killHard: async () => {
      child.kill('SIGKILL')
      await ended
    },
    end: async () => {
      child.stdin.end()
      await ended
    },
  }
}

function readReport(child: ChildProcess): Promise<OwnerReport> {
  return new Promise((resolve, reject) => {
    child.once('exit', () => reject(new Error('the owner ended without a report')))
    if (child.stdout === null) throw new Error('the owner has no output')
    createInterface({ input: child.stdout }).once('line', (line) => resolve(JSON.parse(line) as OwnerReport))
  })
}

/**
 * A child that was forked just now still shows its parent's command, so it is told apart by its parent; and
 * one that ended while the list was read is not counted.
 */
function postmastersOn(clusterDir: string): number[] {
  const found = listProcesses().filter(({ command }) => command.includes(`-D ${clusterDir} `))
  const pids = new Set(found.map(({ pid }) => pid))
  if (pids.size < 2) return [...pids]
  return [...pids].filter((pid) => {
    const parent = parentOf(pid)
    return parent !== undefined && !pids.has(parent)
  })
}

/** Undefined when the process has ended. */
function parentOf(pid: number): number | undefined {
  const { stdout } = spawnSync('ps', ['-o', 'ppid=,state=', '-p', String(pid)], { encoding: 'utf8' })
  const [, parent, state] = /^\s*(\d+)\s+(\S)/.exec(stdout) ?? []
  return parent === undefined || state === 'Z' ? undefined : Number(parent)
}
