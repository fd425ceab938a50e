// `npm run bench:remote`: no-op runs a second of a remote worker, which speaks HTTP with a server and holds
// no connection to Postgres, against the embedded library. `--seconds n` bounds each, `--slots n` sets how
// many at a time. The last line is one JSON object; `ratio.embedded` is remote ÷ embedded. Nothing is
// asserted.
import { benchArguments, seconds } from './support/bench-arguments.ts'
import { finish, machine, ratioOf } from './support/figures.ts'
import { measureThroughput } from './support/measure-throughput.ts'
import { startServers } from './support/servers.ts'

const options = benchArguments({
  seconds: seconds(10),
  slots: { fallback: 1_000, least: 1, most: 10_000 },
})

const ranOn = machine()
const servers = await startServers({ withRedis: false })
try {
  const embedded = await measureThroughput(servers, 'belfry', options)
  const remote = await measureThroughput(servers, 'belfry-remote', options)
  finish({
    runsPerSecond: remote.runsPerSecond,
    ratio: { embedded: ratioOf(remote.runsPerSecond, embedded.runsPerSecond) },
    engines: { embedded, remote },
    ...options,
    postgres: servers.postgresVersion,
    machine: ranOn,
  })
} finally {
  await servers.stop()
}
