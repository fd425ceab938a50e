// The page of the chaos matrix shows what is kept of its runs, and every cell was run and passed.
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { readResults, renderChaosPage } from '../../scripts/lib/chaos-page.ts'
import { listPlaces } from '../cluster/chaos/matrix.ts'

const page = new URL('../../docs/explanation/chaos.md', import.meta.url)
const keyOf = (cell: string, configuration: string): string => `${cell} with ${configuration}`

it('the page is what the kept results say; npm run chaos -- --report writes both', () => {
  expect(readFileSync(page, 'utf8')).toBe(renderChaosPage(readResults()))
})

it('every cell that there is was run, and passed', () => {
  const results = readResults()
  expect(results.filter(({ passed, faults }) => !passed || faults.length > 0)).toEqual([])
  const wanted = listPlaces().map(({ cell, configuration }) => keyOf(cell.name, configuration))
  expect(results.map(({ cell, configuration }) => keyOf(cell, configuration)).toSorted()).toEqual(
    wanted.toSorted(),
  )
})
