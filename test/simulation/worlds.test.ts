// Simulated worlds: the real engine and the real SQL in time that the test sets, with one statement at a
// time, in an order, and with faults, that a seed chooses (docs/explanation/simulation.md). Seeds begin at
// one that the day gives, and as many are played as the time allows; each promise is asked for in each of
// them. A world with something wrong in it says how it is played again.
import { describe, expect, inject, test } from 'vitest'
import { type BrokenName, type BrokenProtocol, brokenProtocols, neverLettingGo } from './support/broken.ts'
import { describeWorld, playMany } from './support/lanes.ts'
import type { Played } from './support/play.ts'

const limitMs = Number(process.env['SIMULATE_SECONDS'] ?? 90) * 1_000
/** Each day has worlds of its own, and all runs of a day the same. */
const firstSeed = Number(process.env['SEED'] ?? Math.floor(Date.now() / 86_400_000) * 10_000)
const server = inject('postgres')

function* seedsFrom(first: number, count = Infinity): Iterable<number> {
  for (let seed = first; seed < first + count; seed++) yield seed
}

test('worlds of every kind, with whatever goes wrong in them: no promise is broken', async () => {
  const wrong: Played[] = []
  const kinds = new Map<string, number>()
  let steps = 0
  await playMany({
    server,
    limitMs,
    seeds: seedsFrom(firstSeed),
    played(world) {
      kinds.set(world.kind, (kinds.get(world.kind) ?? 0) + 1)
      steps += world.steps
      if (world.faults.length > 0) wrong.push(world)
      return wrong.length >= 5
    },
  })
  const counts = [...kinds].map(([kind, count]) => `${count} ${kind}`).join(', ')
  process.stdout.write(`simulated worlds from seed ${firstSeed}: ${counts}; ${steps} steps\n`)
  expect(wrong.map((world) => describeWorld(world)).join('\n')).toBe('')
  expect(kinds.size).toBeGreaterThan(1)
})

test('the same seed plays the same world', async () => {
  const traces: string[] = []
  await playMany({
    server,
    seeds: [7, 7],
    kind: 'timers',
    traced: true,
    played(world) {
      traces.push(world.trace.join('\n'))
      return false
    },
  })
  expect(traces).toHaveLength(2)
  expect(traces[0]?.length).toBeGreaterThan(1_000)
  expect(traces[1]).toBe(traces[0])
})

test('a scheduler that never lets go of its shards does no harm', async () => {
  const wrong: string[] = []
  await playMany({
    server,
    seeds: seedsFrom(1, 12),
    kind: 'timers',
    broken: { elector: neverLettingGo },
    played(world) {
      const others = world.faults.filter((fault) => brokenProtocols['no term check'].shows.test(fault))
      if (others.length > 0) wrong.push(describeWorld({ ...world, faults: others }))
      return false
    },
  })
  expect(wrong).toEqual([])
})

describe('a protocol with a piece left out is found out', () => {
  const most = 150
  test.each(Object.keys(brokenProtocols) as BrokenName[])('%s', async (name) => {
    const broken: BrokenProtocol = brokenProtocols[name]
    let found: Played | undefined
    await playMany({
      server,
      seeds: seedsFrom(1, most),
      kind: broken.kind,
      strikes: broken.strikes,
      broken,
      played(world) {
        if (world.faults.some((fault) => broken.shows.test(fault))) found = world
        return found !== undefined
      },
    })
    expect(found, `in ${most} worlds`).toBeDefined()
  })
})
