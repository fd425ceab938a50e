// `npm run bench:workflow`: what workflows of no-op functions cost, in the embedded library on a Postgres
// of its own, durability on: a chain (ms from one function to the next), workflow runs of one task (a
// backlog worked off; started by the API), a fan-out with its join, once of items and once of tasks, and
// saving a large workflow. `--hops n`, `--width n` and `--slots n` set their sizes, `--seconds n` bounds
// each part that has no end of its own. The last line is one JSON object; `ratio` is each rate ÷ that of
// plain runs. Nothing is asserted.
import { benchArguments, seconds } from './support/bench-arguments.ts'
import { finish, machine, ratioOf, say, showSpread } from './support/figures.ts'
import { measureThroughput } from './support/measure-throughput.ts'
import { measureChain, measureFanOut, measureSave, measureSingles } from './support/measure-workflows.ts'
import { startServers } from './support/servers.ts'

const given = benchArguments({
  seconds: seconds(10),
  slots: { fallback: 1_000, least: 1, most: 10_000 },
  hops: { fallback: 1_000, least: 2, most: 5_000 },
  width: { fallback: 10_000, least: 1, most: 10_000 },
})

const ranOn = machine()
const servers = await startServers({ withRedis: false })
try {
  const plain = await measureThroughput(servers, 'belfry', { seconds: given.seconds, slots: given.slots })
  const chain = await measureChain(servers, given)
  say(`chain of ${given.hops}: a hop ${showSpread(chain.hopMs)}`)
  const singles = await measureSingles(servers, given)
  const { runsPerSecond: ended, startsPerSecond, closedLoopPerSecond } = singles
  say(
    `one task: ${ended} runs of workflows/s; begun by API ${startsPerSecond}/s, run ${closedLoopPerSecond}/s`,
  )
  const items = await measureFanOut(servers, { ...given, as: 'items' })
  const tasks = await measureFanOut(servers, { ...given, as: 'tasks' })
  say(`fan-out of ${given.width} and join: ${items.runsPerSecond} items/s, ${tasks.runsPerSecond} tasks/s`)
  const save = await measureSave(servers, given)
  say(`${save.tasks} tasks: stored in ${save.newMs} ms, changed in ${save.changedMs} ms`)
  const share = (perSecond: number) => ratioOf(perSecond, plain.runsPerSecond)
  finish({
    hopMs: chain.hopMs,
    runsPerSecond: {
      plain: plain.runsPerSecond,
      oneTask: ended,
      fanOutItems: items.runsPerSecond,
      fanOutTasks: tasks.runsPerSecond,
    },
    ratio: {
      oneTask: share(ended),
      fanOutItems: share(items.runsPerSecond),
      fanOutTasks: share(tasks.runsPerSecond),
    },
    oneTask: singles,
    fanOut: { items, tasks },
    save,
    ...given,
    postgres: servers.postgresVersion,
    machine: ranOn,
  })
} finally {
  await servers.stop()
}
