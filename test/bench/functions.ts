// `npm run bench:functions`: no-op functions a second, history kept, durability on, on one Postgres: in the
// embedded library, and in a remote worker over HTTP. `--seconds n` bounds each, `--slots n` sets how many
// at a time. The last line is one JSON object; nothing is asserted.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { createBelfry, createWorker, defineJob } from 'belfry'
import pg from 'pg'
import { createSystemIds } from '../../packages/server/src/adapters/system/ids.ts'
import { startEmbeddedPostgres } from '../../packages/server/src/postgres/embedded/embedded-postgres.ts'
import { migrate } from '../../packages/server/src/postgres/migrate.ts'

const argument = (name: string, fallback: number): number => {
  const at = process.argv.indexOf(`--${name}`)
  return at < 0 ? fallback : Number(process.argv[at + 1])
}
const seconds = argument('seconds', 10)
const slots = argument('slots', 1_000)
const waiting = argument('runs', 400_000)

const noop = defineJob({ name: 'noop', run: () => undefined })
const dataDir = mkdtempSync(join(tmpdir(), 'belfry-bench-'))
const postgres = await startEmbeddedPostgres({ dataDir, log: () => undefined })
const sql = new pg.Client(postgres.adminConnection)

/** Puts so many runs there at once, all ready. */
async function preload(): Promise<void> {
  await sql.query('TRUNCATE belfry.ready, belfry.run, belfry.attempt')
  await sql.query(
    `WITH made AS (
       INSERT INTO belfry.run (id, tenant_id, job_id, job_version, source, queue, priority, input, due_at)
       SELECT overlay(gen_random_uuid()::text placing
                $2 || '-' || $3 || '-7' from 1 for 15)::uuid,
              tenant_id, id, version, 'manual', queue, 0, NULL, now()
       FROM belfry.job, generate_series(1, $1) WHERE name = 'noop'
       RETURNING id, tenant_id, job_id, job_version, queue)
     INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
       available_at, timeout_ms)
     SELECT made.id, made.tenant_id, job_id, job_version, made.queue, job.handler, row_number() OVER (), 0,
       now(), 60000 FROM made JOIN belfry.job ON job.id = job_id`,
    [waiting, ...createSystemIds().uuidv7(Date.now()).split('-').slice(0, 2)],
  )
  await sql.query('VACUUM ANALYZE belfry.ready')
  await sql.query('CHECKPOINT')
}

async function ended(): Promise<number> {
  const { rows } = await sql.query<{ count: string }>('SELECT count(*) FROM belfry.attempt')
  return Number(rows[0]?.count)
}

interface Measured {
  /** Ends a second. */
  readonly rate: number
  /** Processor time of this process for each, which says something on a busy machine too. */
  readonly cpuMicros: number
}

/** From when the first end is there until time or work is over. */
async function measure(): Promise<Measured> {
  while ((await ended()) === 0) await new Promise((resolve) => setTimeout(resolve, 20))
  const before = await ended()
  const startMs = performance.now()
  const cpuBefore = process.cpuUsage()
  let count = before
  while (performance.now() - startMs < seconds * 1_000 && count < waiting) {
    await new Promise((resolve) => setTimeout(resolve, 250))
    count = await ended()
  }
  const { user, system } = process.cpuUsage(cpuBefore)
  const done = count - before
  return {
    rate: Math.round(done / ((performance.now() - startMs) / 1_000)),
    cpuMicros: Math.round((user + system) / done),
  }
}

/** Stores the job, fills the queue, and makes a key for a worker. */
async function prepare(): Promise<string> {
  const asking = createBelfry({ databaseUrl: url, jobs: [noop], work: false, migrate: false })
  await asking.start()
  const name = `bench-${Date.now()}`
  const { secret } = await asking.client.keys.create({ name, scopes: ['worker'] })
  await asking.stop()
  await preload()
  return secret ?? ''
}

async function embedded(): Promise<Measured> {
  await prepare()
  const belfry = createBelfry({ databaseUrl: url, jobs: [noop], slots, migrate: false, drainMs: 1_000 })
  await belfry.start()
  const rate = await measure()
  await belfry.stop()
  return rate
}

async function remote(): Promise<Measured> {
  const token = await prepare()
  const launcher = fileURLToPath(new URL('../../packages/cli/bin/belfry.js', import.meta.url))
  const env = { ...process.env, DATABASE_URL: url, BELFRY_PORT: '0', BELFRY_OPS_PORT: '0' }
  const server = spawn(process.execPath, [launcher, 'server', 'start'], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const gone = once(server, 'close')
  try {
    const apiUrl = await new Promise<string>((resolve) => {
      createInterface({ input: server.stdout }).on('line', (line) => {
        const { event, apiUrl: found } = JSON.parse(line) as { event?: string; apiUrl?: string }
        if (event === 'ready') resolve(found ?? '')
      })
    })
    const worker = createWorker({
      jobs: [noop],
      url: apiUrl,
      token,
      slots,
      handleSignals: false,
      drainMs: 1_000,
      register: false,
    })
    await worker.start()
    const rate = await measure()
    await worker.stop()
    return rate
  } finally {
    server.kill('SIGTERM')
    await gone
  }
}

let url = ''
try {
  await migrate(postgres.adminConnection, { log: () => undefined, runtimeLogin: 'belfry' })
  await sql.connect()
  const { host, port } = postgres.connection
  url = `postgres://belfry@localhost:${port}/belfry?host=${encodeURIComponent(host)}`
  const inside = await embedded()
  console.log(`embedded: ${inside.rate} runs/s`)
  const outside = await remote()
  console.log(`remote:   ${outside.rate} runs/s`)
  console.log(
    JSON.stringify({
      runsPerSecond: { embedded: inside.rate, remote: outside.rate },
      ratio: { remote: Math.round((outside.rate / inside.rate) * 100) / 100 },
      cpuMicrosPerRun: { embedded: inside.cpuMicros, remoteWorker: outside.cpuMicros },
      slots,
      seconds,
    }),
  )
} finally {
  await sql.end()
  await postgres.stop()
  rmSync(dataDir, { recursive: true, force: true })
}
