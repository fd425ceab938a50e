// `npm run bench:lateness`: how late runs start. 1,000 runs due at random instants over 10 s (`--seconds
// n`: 100 for each second), stored in one call 4 s before, or 300 ms before the first of them, or each 300
// ms before it is due; 200 schedules at one instant; and runs that may start at once, asked for in the
// worker's own process and in another. Belfry is a library here, as the peers are. The last line is one
// JSON object; `ratio` is our p99 ÷ theirs. Nothing is asserted.
import { benchArguments, seconds } from './support/bench-arguments.ts'
import type { EngineName } from './support/engine.ts'
import { finish, machine, ratioOf, say, showSpread, type Spread, spreadOf } from './support/figures.ts'
import { openPlayer } from './support/players.ts'
import { startServers } from './support/servers.ts'

const perSecond = 100
const leadMs = 4_000
const noticeMs = 300
const herdLeadMs = 10_000
const herdSize = 200
const immediateCount = 200
const immediateEveryMs = 10
const slots = 100

const given = benchArguments({
  seconds: seconds(10),
  seed: { fallback: 1, least: 1, most: 2 ** 31 },
})

interface Lateness {
  /** Stored beforehand. */
  readonly scheduled: Spread
  /** Stored 300 ms before the first was due. */
  readonly shortNotice: Spread
  /** Each stored 300 ms before it was due. */
  readonly trickle: Spread
  /** From just before the call that stores it to its handler. */
  readonly immediate: { readonly oneProcess: Spread; readonly twoProcesses: Spread }
  /** Schedules at one instant; where the engine has such. */
  readonly herd: Spread | null
}

/** The same instants for every engine: multiplicative congruential, from the seed. */
function randomOffsets(count: number, withinMs: number): number[] {
  let state = given.seed
  return Array.from({ length: count }, () => {
    state = (state * 48_271) % 2_147_483_647
    return Math.round((state / 2_147_483_647) * withinMs)
  })
}

const offsetsMs = randomOffsets(given.seconds * perSecond, given.seconds * 1_000)

async function measure(engine: EngineName): Promise<Lateness> {
  const { place, drop } = await servers.place(engine)
  const options = { place, purpose: 'latency', slots } as const
  const worker = await openPlayer(engine, { ...options, works: true })
  const sender = await openPlayer(engine, { ...options, works: false })
  const forMs = immediateCount * immediateEveryMs
  try {
    const listenAndSend = async (from: typeof sender): Promise<Spread> => {
      const [late] = await Promise.all([
        worker.listen(immediateCount, forMs),
        from.send(immediateCount, immediateEveryMs),
      ])
      return spreadOf(late)
    }
    await worker.work()
    // the first runs find everything cold, in every engine
    await listenAndSend(worker)
    const immediate = { oneProcess: await listenAndSend(worker), twoProcesses: await listenAndSend(sender) }
    say(`${engine.padEnd(16)} immediate, one process   ${showSpread(immediate.oneProcess)}`)
    say(`${engine.padEnd(16)} immediate, two processes ${showSpread(immediate.twoProcesses)}`)
    const scheduled = spreadOf(await worker.lateness(offsetsMs, leadMs, null))
    say(`${engine.padEnd(16)} due at random instants   ${showSpread(scheduled)}`)
    const shortNotice = spreadOf(await worker.lateness(offsetsMs, noticeMs, null))
    say(`${engine.padEnd(16)} with ${noticeMs} ms notice      ${showSpread(shortNotice)}`)
    const trickle = spreadOf(await worker.lateness(offsetsMs, leadMs, noticeMs))
    say(`${engine.padEnd(16)} each ${noticeMs} ms before     ${showSpread(trickle)}`)
    const herd = engine === 'belfry' ? spreadOf(await worker.herd(herdSize, herdLeadMs)) : null
    if (herd !== null) say(`${engine.padEnd(16)} ${herdSize} at one instant      ${showSpread(herd)}`)
    return { scheduled, shortNotice, trickle, immediate, herd }
  } finally {
    await sender.close()
    await worker.close()
    await drop()
  }
}

const ranOn = machine()
const servers = await startServers({ withRedis: true })
try {
  const ours = await measure('belfry')
  const bullmq = servers.redisPort === null ? undefined : await measure('bullmq')
  const graphile = await measure('graphile-worker')
  const against = (figure: (lateness: Lateness) => number) => ({
    bullmq: ratioOf(figure(ours), bullmq && figure(bullmq)),
    'graphile-worker': ratioOf(figure(ours), figure(graphile)),
  })
  finish({
    p99: ours.scheduled.p99,
    ratio: against(({ scheduled }) => scheduled.p99),
    shortNotice: { p99: ours.shortNotice.p99, ratio: against(({ shortNotice }) => shortNotice.p99) },
    trickle: { p99: ours.trickle.p99, ratio: against(({ trickle }) => trickle.p99) },
    herd: { schedules: herdSize, lastStartMs: ours.herd?.max ?? null, started: ours.herd?.count ?? 0 },
    immediate: {
      oneProcess: {
        p50: ours.immediate.oneProcess.p50,
        ratio: against(({ immediate }) => immediate.oneProcess.p50),
      },
      twoProcesses: {
        p50: ours.immediate.twoProcesses.p50,
        ratio: against(({ immediate }) => immediate.twoProcesses.p50),
      },
    },
    engines: { belfry: ours, ...(bullmq && { bullmq }), 'graphile-worker': graphile },
    ...given,
    postgres: servers.postgresVersion,
    redis: servers.redisVersion,
    machine: ranOn,
  })
} finally {
  await servers.stop()
}
