// One embedded Postgres 18 for a whole vitest run, with a template database migrated once. vitest calls
// `setup` for each project that needs it; they share one server, which the last `teardown` stops. Tests get
// at it by test/support/postgres.ts. It runs without fsync, and in memory where there is room (cloning is
// 15 times faster there): what these tests store need not outlive the machine. The tests of the embedded
// server itself use real files.
import { rmSync } from 'node:fs'
import pg from 'pg'
import { startEmbeddedPostgres } from '../../packages/server/src/postgres/embedded/embedded-postgres.ts'
import { migrate } from '../../packages/server/src/postgres/migrate.ts'
import { makeFastDirectory } from './temporary-directory.ts'

export type SharedServer = {
  /** Directory of the socket; trusted, so there is no password. */
  readonly host: string
  readonly port: number
  /** Migrated, never connected to: databases of tests are clones of it. */
  readonly template: string
}

declare module 'vitest' {
  // biome-ignore lint/style/useConsistentTypeDefinitions: vitest merges this interface
  interface ProvidedContext {
    readonly postgres: SharedServer
  }
}

type Project = { readonly provide: (key: 'postgres', value: SharedServer) => void }
type Running = { readonly server: SharedServer; readonly stop: () => Promise<void> }

const template = 'belfry_template'
// vitest loads this file once for each project, so the server hangs on the process and not on the module.
const shared = globalThis as typeof globalThis & {
  belfryTestServer?: Promise<Running>
  belfryTestUsers?: number
}

export async function setup(project: Project): Promise<void> {
  shared.belfryTestUsers = (shared.belfryTestUsers ?? 0) + 1
  shared.belfryTestServer ??= start()
  project.provide('postgres', (await shared.belfryTestServer).server)
}

export async function teardown(): Promise<void> {
  shared.belfryTestUsers = (shared.belfryTestUsers ?? 1) - 1
  const running = shared.belfryTestServer
  if (shared.belfryTestUsers > 0 || running === undefined) return
  delete shared.belfryTestServer
  await (await running).stop()
}

async function start(): Promise<Running> {
  const dataDir = makeFastDirectory('belfry-test')
  const embedded = await startEmbeddedPostgres({
    dataDir,
    log: (level, message) => {
      if (level !== 'info') process.stderr.write(`[test postgres] ${message}\n`)
    },
    settings: { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off', max_connections: 200 },
  })
  const stop = async () => {
    await embedded.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
  try {
    const admin = new pg.Client({ ...embedded.adminConnection, database: 'postgres' })
    await admin.connect()
    await admin.query(`CREATE DATABASE ${template} TEMPLATE template0 ENCODING 'UTF8'`)
    await admin.end()
    await migrate(
      { ...embedded.adminConnection, database: template },
      { log: () => undefined, runtimeLogin: 'belfry' },
    )
    const { host, port } = embedded.adminConnection
    return { server: { host, port, template }, stop }
  } catch (error) {
    await stop()
    throw error
  }
}
