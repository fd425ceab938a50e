// `npm run bench:gate`: no-op functions a second behind limits, in the embedded library on a Postgres of its
// own, durability on: without a limit, with 10 and 100 at once, and one at once for each of 1,000 and 10,000
// keys. `--seconds n` bounds each case, `--slots n` sets how many runs the process takes at once. A no-op
// frees its place at once, so what is measured is how fast places are given on. The last line is one JSON
// object; `ratio` is each case ÷ the one without a limit. Nothing is asserted.
import { createBelfry, defineJob } from 'belfry'
import { benchArguments, seconds } from './support/bench-arguments.ts'
import { finish, machine, ratioOf, round, say } from './support/figures.ts'
import { type Servers, startServers } from './support/servers.ts'

const given = benchArguments({
  seconds: seconds(10),
  slots: { fallback: 500, least: 1, most: 10_000 },
})
/** For each second of the measurement: more than a gate lets through. */
const backlogPerSecond = 5_000
const leastBacklog = 20_000
const batch = 1_000

interface Case {
  readonly name: string
  readonly limits: { readonly concurrency?: number; readonly concurrencyKey?: string }
  readonly keys: number
}
const cases: readonly Case[] = [
  { name: 'none', limits: {}, keys: 1 },
  { name: 'limit10', limits: { concurrency: 10 }, keys: 1 },
  { name: 'limit100', limits: { concurrency: 100 }, keys: 1 },
  { name: 'keys1000', limits: { concurrencyKey: 'key' }, keys: 1_000 },
  { name: 'keys10000', limits: { concurrencyKey: 'key' }, keys: 10_000 },
]

interface Measured {
  readonly runsPerSecond: number
  readonly insertPerSecond: number
  readonly runs: number
  /** Of the whole process: worker and gatekeeper. */
  readonly cpuMicrosPerRun: number
}

async function measure(servers: Servers, { name, limits, keys }: Case): Promise<Measured> {
  const { place, drop } = await servers.place('belfry')
  let count = 0
  let firstMs = 0
  let lastMs = 0
  const allRan = Promise.withResolvers<void>()
  const backlog = Math.max(leastBacklog, given.seconds * backlogPerSecond)
  let cpu = process.cpuUsage()
  const job = defineJob({
    name,
    ...limits,
    run: () => {
      lastMs = performance.now()
      if (count++ === 0) {
        firstMs = lastMs
        cpu = process.cpuUsage()
        setTimeout(allRan.resolve, given.seconds * 1_000)
      }
      if (count === backlog) allRan.resolve()
    },
  })
  const options = { databaseUrl: place.runtimeUrl, jobs: [job], migrate: false, logLevel: 'error' } as const
  const asking = createBelfry({ ...options, work: false })
  await asking.start()
  const startedMs = performance.now()
  for (let from = 0; from < backlog; from += batch) {
    const items = Array.from({ length: batch }, (_, each) => ({
      job: name,
      input: { key: (from + each) % keys },
    }))
    await asking.client.runs.enqueueBatch({ items, atomic: true })
  }
  const insertPerSecond = Math.round((backlog / (performance.now() - startedMs)) * 1_000)
  await asking.stop()
  await servers.on(place.databaseUrl, (sql) => sql.query('VACUUM ANALYZE'))
  const belfry = createBelfry({ ...options, slots: given.slots, drainMs: 1_000 })
  try {
    await belfry.start()
    await allRan.promise
    const { user, system } = process.cpuUsage(cpu)
    const runs = count
    const runsPerSecond = Math.round(((runs - 1) / (lastMs - firstMs)) * 1_000)
    const found = { runsPerSecond, insertPerSecond, runs, cpuMicrosPerRun: round((user + system) / runs) }
    const cost = `${found.cpuMicrosPerRun} µs of the processor each`
    say(`${name.padEnd(10)} ${runsPerSecond} runs/s, ${cost} (${runs})`)
    return found
  } finally {
    await belfry.stop()
    await drop()
  }
}

const ranOn = machine()
const servers = await startServers({ withRedis: false })
try {
  const measured = new Map<string, Measured>()
  for (const each of cases) measured.set(each.name, await measure(servers, each))
  const free = measured.get('none')?.runsPerSecond
  finish({
    runsPerSecond: Object.fromEntries([...measured].map(([name, found]) => [name, found.runsPerSecond])),
    ratio: Object.fromEntries(
      [...measured]
        .filter(([name]) => name !== 'none')
        .map(([name, found]) => [name, ratioOf(found.runsPerSecond, free)]),
    ),
    cases: Object.fromEntries(measured),
    seconds: given.seconds,
    slots: given.slots,
    postgres: servers.postgresVersion,
    machine: ranOn,
  })
} finally {
  await servers.stop()
}
