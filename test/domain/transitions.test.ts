// The table of run states: closed, without dead ends, and what the reference page shows.
import { isTerminal, runStates, terminalRunStates } from '@belfry/contract'
import { describe, expect, test } from 'vitest'
import {
  endStates,
  mayBecome,
  successorsOf,
  transitions,
} from '../../packages/server/src/domain/transitions.ts'
import { renderRunStates } from '../../scripts/lib/run-states-page.ts'

describe('the table of transitions', () => {
  test('nothing follows a terminal state', () => {
    for (const state of terminalRunStates) expect(successorsOf(state)).toEqual([])
  })

  test('every state can be reached from the start, and every open one can come to an end', () => {
    const reached = new Set<string>()
    const visit = (state: (typeof runStates)[number] | null): void => {
      for (const next of successorsOf(state)) {
        if (reached.has(next)) continue
        reached.add(next)
        visit(next)
      }
    }
    visit(null)
    expect([...reached].sort()).toEqual([...runStates].sort())
    const open = runStates.filter((state) => !isTerminal(state))
    expect(open.filter((state) => successorsOf(state).length === 0)).toEqual([])
  })

  test('only a pending run starts to run, and a running one never waits for dependencies', () => {
    expect(transitions.filter((row) => row.to === 'running').map((row) => row.from)).toEqual(['pending'])
    expect(mayBecome('running', 'waiting_for_dependencies')).toBe(false)
    expect(mayBecome('running', 'running')).toBe(false)
  })

  test('no row stands twice', () => {
    const keys = transitions.map((row) => `${row.from} ${row.to} ${row.by}`)
    expect(new Set(keys).size).toBe(keys.length)
  })

  test('the states in which a run can end are the terminal ones', () => {
    expect(endStates).toEqual(terminalRunStates)
  })
})

test('the reference page names every state and every transition', () => {
  const page = renderRunStates()
  for (const state of runStates) expect(page).toContain(`| \`${state}\` |`)
  for (const row of transitions) expect(page).toContain(`| ${row.by} | ${row.when} |`)
})
