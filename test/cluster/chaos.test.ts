// A few cells of the chaos matrix in every run: one of each kind of store. `npm run chaos -- --all` runs
// them all, and docs/explanation/chaos.md shows what came of it. The seed is printed; SEED=… draws the same
// again.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { seedOf } from '../support/random-draws.ts'
import { listPlaces, missingFor } from './chaos/matrix.ts'
import { runCell, usualWindowMs } from './chaos/run-cell.ts'
import { makeTemplate } from './chaos/world.ts'
import { cleanUpList } from './support/arena.ts'

const seed = seedOf('chaos')
const places = listPlaces().filter(({ cell, configuration }) => cell.ci.includes(configuration))
const { defer, clear } = cleanUpList()
let template = ''
beforeAll(async () => {
  template = await makeTemplate(defer)
})
afterAll(clear)

test.each(places)('$cell.name with $configuration', { timeout: 300_000 }, async (place) => {
  const missing = missingFor(place)
  if (missing !== undefined) {
    if (process.env['CI'] === 'true') throw new Error(missing)
    process.stdout.write(`left out: ${place.cell.name} with ${place.configuration} ${missing}\n`)
    return
  }
  const result = await runCell({ ...place, seed, windowMs: usualWindowMs, template, bearsLoad: true })
  expect(result.faults, [`SEED=${seed}`, ...result.diary, ...result.log].join('\n')).toEqual([])
  process.stdout.write(
    `${result.cell}: ${result.worst} was ${result.worstLateMs} ms late, ${result.lost} lost\n`,
  )
})
