// Plays simulated worlds from the command line, to look into one: `npm run simulate -- --seed 7 --trace`.
import { parseArgs } from 'node:util'
import { type SharedServer, setup, teardown } from '../support/global-postgres.ts'
import { type BrokenName, type BrokenProtocol, brokenProtocols } from './support/broken.ts'
import { kinds } from './support/kinds.ts'
import { describeWorld, playMany } from './support/lanes.ts'

const usage = `usage: npm run simulate -- [--seed N] [--worlds N] [--kind KIND] [--broken NAME] [--trace]

  --seed     the first seed (1)
  --worlds   how many, one seed after the other (1)
  --kind     of ${kinds.join(', ')}; else as the seed says
  --broken   with a piece of a protocol left out:
             ${Object.keys(brokenProtocols).join('\n             ')}
  --trace    writes all that happens: time in ms, node, statement

Exits with 1 where something was wrong with a world.
`

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string', default: '1' },
      worlds: { type: 'string', default: '1' },
      kind: { type: 'string' },
      broken: { type: 'string' },
      trace: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  const [seed, worlds] = [Number(values.seed), Number(values.worlds)]
  const kind = kinds.find((each) => each === values.kind)
  const isBroken = values.broken === undefined || values.broken in brokenProtocols
  const isKnown = values.kind === undefined || kind !== undefined
  if (values.help || !Number.isInteger(seed) || !Number.isInteger(worlds) || !isBroken || !isKnown) {
    process.stderr.write(usage)
    return values.help ? 0 : 2
  }
  const broken: BrokenProtocol | undefined =
    values.broken === undefined ? undefined : brokenProtocols[values.broken as BrokenName]
  let server: SharedServer | undefined
  await setup({ provide: (_, value) => (server = value) })
  try {
    if (server === undefined) throw new Error('The database of the worlds did not start.')
    return await simulate(server)
  } finally {
    await teardown()
  }

  async function simulate(at: SharedServer): Promise<number> {
    let wrong = 0
    await playMany({
      server: at,
      seeds: Array.from({ length: worlds }, (_, index) => seed + index),
      kind: kind ?? broken?.kind,
      broken,
      strikes: broken?.strikes,
      traced: values.trace,
      played(world) {
        if (world.trace.length > 0) process.stdout.write(`${world.trace.join('\n')}\n`)
        const passed = `${(world.worldMs / 1_000).toFixed(1)} s of it, ${world.steps} statements`
        if (world.faults.length === 0)
          process.stdout.write(`seed ${world.seed}, ${world.kind}: nothing wrong (${passed})\n`)
        else process.stdout.write(`${describeWorld(world, values.broken)}\n`)
        if (world.faults.length > 0) wrong++
        return false
      },
    })
    return wrong === 0 ? 0 : 1
  }
}

process.exitCode = await main()
