// The page of the chaos matrix shows what is kept of its runs: a cell that failed, or was not run, stands
// there as such.
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { readResults, renderChaosPage } from '../../scripts/lib/chaos-page.ts'
import { listPlaces } from '../cluster/chaos/matrix.ts'

const page = new URL('../../docs/explanation/chaos.md', import.meta.url)
const keyOf = (cell: string, configuration: string): string => `${cell} with ${configuration}`

it('the page is what the kept results say; npm run chaos -- --report writes both', () => {
  expect(readFileSync(page, 'utf8')).toBe(renderChaosPage(readResults()))
})

it('each result is of a cell that there is, and says why where it failed', () => {
  const results = readResults()
  expect(results.filter(({ passed, faults }) => passed !== (faults.length === 0))).toEqual([])
  const known = new Set(listPlaces().map(({ cell, configuration }) => keyOf(cell.name, configuration)))
  expect(results.filter(({ cell, configuration }) => !known.has(keyOf(cell, configuration)))).toEqual([])
  expect(results.length).toBeGreaterThan(0)
})
