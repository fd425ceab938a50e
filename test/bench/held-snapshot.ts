// `npm run bench:held-snapshot`: what one idle transaction that keeps an old snapshot costs. Belfry works
// off runs that come in without end; first with no such transaction, then with one held open for 10 minutes
// (`--seconds n`), in ten windows. While it is held, Postgres can remove no dead row. The last line is one
// JSON object; `ratio.without` is held ÷ without, `flat` the last three windows ÷ the first three. Nothing
// is asserted.
import type pg from 'pg'
import { benchArguments, seconds } from './support/bench-arguments.ts'
import { finish, machine, round, say } from './support/figures.ts'
import { openPlayer, type Player } from './support/players.ts'
import { startServers } from './support/servers.ts'

const windowCount = 10
const longestWithoutMs = 60_000
const warmUpMs = 3_000
/** Runs that wait: never fewer than this while it is measured, and about twice as many at most. */
const backlog = 30_000
const lookMs = 100

const given = benchArguments({
  seconds: seconds(600),
  slots: { fallback: 1_000, least: 1, most: 10_000 },
})

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** Keeps runs coming until it is told to stop. */
function feed(player: Player): { stop: () => Promise<void> } {
  let stopped = false
  const feeding = (async () => {
    let fed = 0
    while (!stopped) {
      const { count } = await player.progress()
      if (fed - count < backlog) {
        await player.preload(backlog)
        fed += backlog
      } else {
        await pause(lookMs)
      }
    }
  })()
  const stop = async (): Promise<void> => {
    stopped = true
    await feeding
  }
  return { stop }
}

interface Window {
  readonly runsPerSecond: number
  /** Of the table of live runs. */
  readonly tableMiB: number
  readonly indexMiB: number
  readonly memoryMiB: number
}

async function measure(player: Player, sql: pg.Client, ms: number): Promise<Window> {
  const before = await player.progress()
  const startedMs = performance.now()
  await pause(ms)
  const after = await player.progress()
  const perSecond = ((after.count - before.count) / (performance.now() - startedMs)) * 1_000
  const { rows } = await sql.query<{ table: string; index: string }>(
    `SELECT pg_table_size('belfry.ready') AS table, pg_indexes_size('belfry.ready') AS index`,
  )
  const mib = (bytes: string | undefined): number => round(Number(bytes) / 2 ** 20)
  const sizes = { tableMiB: mib(rows[0]?.table), indexMiB: mib(rows[0]?.index) }
  return { runsPerSecond: Math.round(perSecond), ...sizes, memoryMiB: after.memoryMiB }
}

const words = (name: string, window: Window): string =>
  `${name.padEnd(14)} ${window.runsPerSecond} runs/s; live runs ${window.tableMiB} MiB, their indexes ` +
  `${window.indexMiB} MiB; memory of the worker ${window.memoryMiB} MiB`

const mean = (windows: readonly Window[]): number =>
  windows.reduce((sum, { runsPerSecond }) => sum + runsPerSecond, 0) / windows.length

const ranOn = machine()
const servers = await startServers({ withRedis: false })
try {
  const { place } = await servers.place('belfry')
  const player = await openPlayer('belfry', {
    place,
    purpose: 'throughput',
    works: true,
    slots: given.slots,
  })
  await servers.on(place.databaseUrl, (sql) =>
    servers.on(place.databaseUrl, async (holder) => {
      await player.insertOne()
      await player.preload(backlog)
      await player.begin()
      const feeding = feed(player)
      await pause(Math.min(warmUpMs, given.seconds * 1_000))
      const without = await measure(player, sql, Math.min(longestWithoutMs, given.seconds * 1_000))
      say(words('without', without))
      await holder.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await holder.query('SELECT count(*), pg_current_xact_id() FROM belfry.job')
      const windows: Window[] = []
      for (let each = 1; each <= windowCount; each++) {
        const window = await measure(player, sql, (given.seconds * 1_000) / windowCount)
        windows.push(window)
        say(words(`held, ${each}/${windowCount}`, window))
      }
      await holder.query('ROLLBACK')
      await feeding.stop()
      finish({
        runsPerSecond: { without: without.runsPerSecond, held: Math.round(mean(windows)) },
        ratio: { without: round(mean(windows) / without.runsPerSecond) },
        flat: round(mean(windows.slice(-3)) / mean(windows.slice(0, 3))),
        without,
        windows,
        ...given,
        postgres: servers.postgresVersion,
        machine: ranOn,
      })
    }),
  )
  await player.close()
} finally {
  await servers.stop()
}
