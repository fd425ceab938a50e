// `npm run bench:throughput`: no-op runs a second, history kept and durability on, and inserts a second, of
// Belfry as a library and of its peers, one after the other on one Postgres (BullMQ on Redis). `--seconds
// n` bounds each measurement, `--runs n` works off so many runs instead, `--slots n` sets how many Belfry
// runs at a time, `--engines a,b` which peers take part. The last line is one JSON object; `ratio` is ours
// ÷ theirs. Nothing is asserted.
import { benchArguments, seconds } from './support/bench-arguments.ts'
import type { EngineName } from './support/engine.ts'
import { finish, machine, ratioOf, say } from './support/figures.ts'
import { measureThroughput, type Throughput } from './support/measure-throughput.ts'
import { startServers } from './support/servers.ts'

const known: readonly EngineName[] = ['belfry', 'graphile-worker', 'pg-boss', 'bullmq']
const given = benchArguments(
  {
    seconds: seconds(10),
    slots: { fallback: 2_000, least: 1, most: 10_000 },
    runs: { fallback: 0, least: 0, most: 100_000_000 },
  },
  { engines: known.join(',') },
)
const options = { ...given, runs: given.runs === 0 ? undefined : given.runs }

const asked = new Set<string>(['belfry', ...given.engines.split(',')])
const ranOn = machine()
const servers = await startServers({ withRedis: asked.has('bullmq') })
try {
  const measured = new Map<EngineName, Throughput>()
  for (const engine of known) {
    if (!asked.has(engine) || (engine === 'bullmq' && servers.redisPort === null)) continue
    measured.set(engine, await measureThroughput(servers, engine, options))
  }
  const ours = measured.get('belfry')
  if (ours === undefined) throw new Error('Belfry was not measured.')
  const others = [...measured].filter(([engine]) => engine !== 'belfry')
  const against = (figure: 'runsPerSecond' | 'insertPerSecond') =>
    Object.fromEntries(others.map(([engine, theirs]) => [engine, ratioOf(ours[figure], theirs[figure])]))
  say(`memory of Belfry's process after each quarter: ${ours.memoryMiB.join(', ')} MiB`)
  finish({
    runsPerSecond: ours.runsPerSecond,
    insertPerSecond: ours.insertPerSecond,
    ratio: against('runsPerSecond'),
    insertRatio: against('insertPerSecond'),
    engines: Object.fromEntries(measured),
    seconds: given.seconds,
    slots: given.slots,
    postgres: servers.postgresVersion,
    redis: servers.redisVersion,
    machine: ranOn,
  })
} finally {
  await servers.stop()
}
