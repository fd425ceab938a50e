// How many no-op runs a second an engine inserts and executes, one engine at a time: first the inserts,
// then a backlog to be worked off. Shared by bench:throughput and bench:remote.
import type { EngineName } from './engine.ts'
import { round, say } from './figures.ts'
import { openPlayer } from './players.ts'
import type { Servers } from './servers.ts'

/** How large a backlog is for each second of the measurement: more than the engine works off. */
const backlogPerSecond: Readonly<Record<EngineName, number>> = {
  belfry: 130_000,
  'belfry-remote': 60_000,
  'graphile-worker': 100_000,
  'pg-boss': 10_000,
  bullmq: 35_000,
}
/** Inserts are measured for at most so long: their rate is steady sooner. */
const longestInsertMs = 5_000

export interface Throughput {
  readonly runsPerSecond: number
  readonly insertPerSecond: number
  readonly runs: number
  /** Processor time of the worker's process for each run. */
  readonly cpuMicrosPerRun: number
  readonly statementsPerRun: number | null
  readonly walBytesPerRun: number | null
  readonly memoryMiB: readonly number[]
}

export interface ThroughputOptions {
  readonly seconds: number
  readonly slots: number
  /** Instead of a backlog by the time; the measurement ends when it is worked off. */
  readonly runs?: number | undefined
}

export async function measureThroughput(
  servers: Servers,
  engine: EngineName,
  { seconds, slots, runs }: ThroughputOptions,
): Promise<Throughput> {
  const { place, drop } = await servers.place(engine)
  const usesPostgres = engine !== 'bullmq'
  const player = await openPlayer(engine, { place, purpose: 'throughput', works: true, slots })
  try {
    const backlog = runs ?? seconds * backlogPerSecond[engine]
    const inserted = await player.insertFor(Math.min(longestInsertMs, seconds * 1_000), backlog)
    if (backlog > inserted.count) await player.preload(backlog - inserted.count)
    if (usesPostgres) await settle(servers, place.databaseUrl)
    const walBefore = usesPostgres ? await walPosition(servers) : 0
    const limitMs = runs === undefined ? seconds * 1_000 : 3_600_000
    const burned = await player.burn(limitMs, backlog)
    const wal = usesPostgres ? (await walPosition(servers)) - walBefore : 0
    const found = {
      runsPerSecond: Math.round(burned.perSecond),
      insertPerSecond: Math.round(inserted.perSecond),
      runs: burned.count,
      cpuMicrosPerRun: round(burned.cpuMicros),
      statementsPerRun: usesPostgres ? round(burned.statements) : null,
      walBytesPerRun: usesPostgres ? Math.round(wal / burned.count) : null,
      memoryMiB: burned.memoryMiB,
    }
    say(words(engine, found))
    return found
  } finally {
    await player.close()
    await drop()
  }
}

function words(engine: EngineName, found: Throughput): string {
  const rates = `${found.runsPerSecond} runs/s, inserts ${found.insertPerSecond}/s`
  const own = `${found.cpuMicrosPerRun} µs of the worker's processor a run`
  const theirs =
    found.walBytesPerRun === null
      ? ''
      : `, ${found.walBytesPerRun} B of WAL, ${found.statementsPerRun} statements`
  return `${engine.padEnd(16)} ${rates}; ${own}${theirs} (${found.runs} runs)`
}

/** Statistics, visibility and checkpoints are as in a system that has been up for a while. */
async function settle(servers: Servers, databaseUrl: string): Promise<void> {
  await servers.on(databaseUrl, async (sql) => {
    await sql.query('VACUUM ANALYZE')
    await sql.query('CHECKPOINT')
  })
}

async function walPosition({ sql }: Servers): Promise<number> {
  const { rows } = await sql.query<{ position: string }>(
    "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::text AS position",
  )
  return Number(rows[0]?.position)
}
