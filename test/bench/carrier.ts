// `npm run bench:carrier`: no-op runs a second of a worker that claims from Postgres, and of one to which
// runs are announced by Kafka, one after the other on one Postgres; and how long a single run waits, now
// and then, from its insert to its start. Announcer, broker and worker share the machine. `--seconds n`
// bounds each part, `--slots n` sets how many run at a time. The last line is one JSON object; `ratio` is
// Kafka ÷ without. Nothing is asserted.
import { createPostgresCallbackStore } from '../../packages/server/src/postgres/callback-store.ts'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import { createKafkaAnnouncements } from '../../packages/server/src/adapters/kafka/kafka-announcements.ts'
import { createKafkaLink } from '../../packages/server/src/adapters/kafka/kafka-link.ts'
import { createTagClock } from '../../packages/server/src/domain/fair-queue.ts'
import { createAnnouncedQueue } from '../../packages/server/src/engine/announced-queue.ts'
import { createAnnouncer } from '../../packages/server/src/engine/announcer.ts'
import { createDatabaseClock } from '../../packages/server/src/engine/database-clock.ts'
import { createLocalHints } from '../../packages/server/src/engine/local-hints.ts'
import { createWorker } from '../../packages/server/src/engine/worker.ts'
import type { Announcements } from '../../packages/server/src/ports/announcements.ts'
import type { Hints } from '../../packages/server/src/ports/hints.ts'
import type { Database } from '../../packages/server/src/postgres/database.ts'
import { openDatabase } from '../../packages/server/src/postgres/database.ts'
import { createPostgresReadyWindows } from '../../packages/server/src/postgres/ready-windows.ts'
import {
  createPostgresAnnouncedRuns,
  createPostgresRunQueue,
} from '../../packages/server/src/postgres/run-queue.ts'
import { createPostgresRunStore } from '../../packages/server/src/postgres/run-store.ts'
import { everyShard } from '../support/announced-rig.ts'
import { kafkaJars } from '../support/kafka-jars.ts'
import { startKafkaServer } from '../support/kafka-server.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import {
  newId,
  type RecordedEvents,
  recordEvents,
  success,
  testHandler,
  testIds,
} from '../support/running.ts'
import { benchArguments, seconds } from './support/bench-arguments.ts'
import { idOfCopy } from './support/copy-rows.ts'
import { finish, machine, ratioOf, round, say, showSpread, spreadOf } from './support/figures.ts'
import { startServers } from './support/servers.ts'

const options = benchArguments({
  seconds: seconds(8),
  slots: { fallback: 1_000, least: 1, most: 10_000 },
})
/** More than is worked off. */
const backlogPerSecond = 40_000
const singles = 40

interface Bench {
  readonly sql: pg.Client
  readonly db: Database
  readonly leases: Database
  readonly jobId: string
  readonly tenantId: string
}

async function prepare(sql: pg.Client): Promise<Pick<Bench, 'jobId' | 'tenantId'>> {
  const [tenantId, jobId] = [newId(), newId()]
  const definition = JSON.stringify({ handler: { kind: 'http', url: 'http://target.invalid/' } })
  await sql.query('INSERT INTO belfry.tenant (id, name) VALUES ($1, $2)', [tenantId, 'bench'])
  await sql.query(
    `INSERT INTO belfry.job (id, tenant_id, name, handler, queue, priority, attempt_timeout_ms, definition)
     VALUES ($1, $2, 'noop', 'http', 'default', 0, 60000, $3)`,
    [jobId, tenantId, definition],
  )
  await sql.query(
    'INSERT INTO belfry.job_version (job_id, version, tenant_id, definition) VALUES ($1, 1, $2, $3)',
    [jobId, tenantId, definition],
  )
  return { jobId, tenantId }
}

async function insert({ sql, jobId, tenantId }: Bench, count: number): Promise<void> {
  await sql.query(
    `WITH made AS MATERIALIZED (
       SELECT ${idOfCopy()} AS id, place FROM generate_series(1, ${count}) AS place
     ), run AS (
       INSERT INTO belfry.run (id, tenant_id, job_id, job_version, source, queue, priority, input, due_at)
       SELECT id, '${tenantId}', '${jobId}', 1, 'manual', 'default', 0, 'null', now() FROM made
     )
     INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
       available_at, timeout_ms, detailed)
     SELECT id, '${tenantId}', '${jobId}', 1, 'default', 'http', place, 0, now(), 60000, false FROM made`,
  )
}

async function measure(bench: Bench, announcements: Announcements | undefined) {
  const hints = createLocalHints()
  const publishing: Hints = { ...hints, publish: (hint) => hints.deliver(hint) }
  const events = recordEvents()
  const parts = { clock: realClock, random: realRandom, events: { emit: () => undefined }, hints: publishing }
  const queue = createPostgresRunQueue(bench.db)
  const announced =
    announcements &&
    createAnnouncedQueue({
      ...parts,
      events,
      queue,
      runs: createPostgresAnnouncedRuns(bench.db),
      inbox: announcements.open(['default']),
      slots: options.slots,
    })
  const announcer =
    announcements &&
    createAnnouncer({
      ...parts,
      announcements,
      elector: everyShard,
      windows: createPostgresReadyWindows(bench.db),
    })
  let started = 0
  const worker = createWorker({
    ...parts,
    queue: announced ?? queue,
    hints: announced?.withHints(publishing) ?? publishing,
    store: createPostgresRunStore({ db: bench.db, heartbeats: bench.leases }),
    callbacks: createPostgresCallbackStore(bench.db),
    handlers: [{ ...testHandler(() => success), execute: async () => (started++, success) }],
    databaseClock: createDatabaseClock(realClock),
    ids: testIds,
    tags: createTagClock(),
    host: 'bench',
    version: '0',
    queues: ['default'],
    settings: { slots: options.slots, drainMs: 2_000 },
  })
  const services = [announced, worker, announcer].filter((service) => service !== undefined)
  for (const service of services) await service.start()
  const hint = (): void => publishing.publish({ topic: 'ready', key: 'default' })
  try {
    return await play(bench, { announces: announced !== undefined, started: () => started, events, hint })
  } finally {
    for (const service of services.toReversed()) await service.stop()
  }
}

interface Playing {
  readonly announces: boolean
  readonly started: () => number
  readonly events: RecordedEvents
  readonly hint: () => void
}

async function play(bench: Bench, { announces, started, events, hint }: Playing) {
  const claims = () => events.of('announced_claim')
  const sum = (of: 'claimed' | 'gone' | 'direct') => claims().reduce((total, claim) => total + claim[of], 0)
  // until the topic and the group are there
  for (let round = 0; started() < 100 || (announces && sum('claimed') === 0); round++) {
    if (round > 120) throw new Error('Nothing is claimed by what is announced.')
    await insert(bench, 20)
    hint()
    await wait(250)
  }
  const waits: number[] = []
  for (let single = 0; single < singles; single++) {
    await wait(100 + realRandom.next() * 50)
    const before = started()
    const sentMs = performance.now()
    await insert(bench, 1)
    hint()
    while (started() === before) await wait(0)
    waits.push(performance.now() - sentMs)
  }
  await insert(bench, options.seconds * backlogPerSecond)
  hint()
  await wait(500)
  const [fromMs, from] = [performance.now(), started()]
  await wait(options.seconds * 1_000)
  const perSecond = Math.round(((started() - from) / (performance.now() - fromMs)) * 1_000)
  const ways = { claimed: sum('claimed'), gone: sum('gone'), direct: sum('direct'), claims: claims().length }
  return { perSecond, single: spreadOf(waits), ways }
}

async function onFreshDatabase(announcements: Announcements | undefined) {
  const { place, drop } = await servers.place('belfry')
  const open = (maxConnections: number) =>
    openDatabase({
      connection: { connectionString: place.runtimeUrl },
      clock: realClock,
      random: realRandom,
      maxConnections,
    })
  const [db, leases] = [open(8), open(2)]
  const sql = new pg.Client({ connectionString: place.databaseUrl })
  await sql.connect()
  try {
    return await measure({ sql, db, leases, ...(await prepare(sql)) }, announcements)
  } finally {
    await Promise.all([db.close(), leases.close(), sql.end()])
    await drop()
  }
}

const jars = kafkaJars()
if (jars === undefined) {
  say('There is no Kafka: set KAFKA_HOME, or run "npm test" once, which fetches it.')
  process.exit(1)
}
const ranOn = machine()
const servers = await startServers({ withRedis: false })
const kafka = await startKafkaServer(jars)
const settings = { brokers: [kafka.brokers], prefix: 'belfry', partitions: 8 }
const link = createKafkaLink({ settings, clock: realClock, random: realRandom, events: recordEvents() })
try {
  await link.start()
  const without = await onFreshDatabase(undefined)
  say(`Postgres  ${without.perSecond} runs/s; one: ${showSpread(without.single)}`)
  const parts = { link, clock: realClock, random: realRandom, events: recordEvents() }
  const carried = await onFreshDatabase(createKafkaAnnouncements(parts))
  const ways = JSON.stringify(carried.ways)
  say(`Kafka     ${carried.perSecond} runs/s; one: ${showSpread(carried.single)}; ${ways}`)
  finish({
    runsPerSecond: carried.perSecond,
    ratio: { postgres: ratioOf(carried.perSecond, without.perSecond) },
    singleMs: { postgres: round(without.single.p50), kafka: round(carried.single.p50) },
    engines: { without, carried },
    ...options,
    postgres: servers.postgresVersion,
    machine: ranOn,
  })
} finally {
  await link.close()
  await kafka.close()
  await servers.stop()
}
