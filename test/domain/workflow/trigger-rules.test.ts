// The rules of tasks against the truth tables of the cases: every rule, every pair of ended parents.
import { readFileSync } from 'node:fs'
import { triggerRules } from '@belfry/contract'
import { describe, expect, it } from 'vitest'
import {
  countParent,
  judgeRule,
  noParents,
  startsWithoutWaiting,
} from '../../../packages/server/src/domain/workflow/trigger-rules.ts'

type Letter = 'S' | 'F' | 'U' | 'K'
interface RuleTable {
  readonly table: Readonly<Record<string, Readonly<Record<string, string>>>>
  readonly without_waiting: readonly string[]
}

const file = new URL('../../cases/dag.json', import.meta.url)
const { trigger_rules: rules } = JSON.parse(readFileSync(file, 'utf8')) as { trigger_rules: RuleTable }
const states = { S: 'succeeded', F: 'failed', U: 'upstream_failed', K: 'skipped' } as const
const words: Readonly<Record<string, string>> = { all_succeeded: 'all_success' }
const tableOf = (rule: string) => rules.table[words[rule] ?? rule] ?? {}

describe('trigger rules', () => {
  it('are those of the table, no more and no fewer', () => {
    expect(triggerRules.map((rule) => words[rule] ?? rule).toSorted()).toEqual(
      Object.keys(rules.table).toSorted(),
    )
  })

  it.each(triggerRules)(
    '%s decides every pair of ended parents as the table says, in both orders',
    (rule) => {
      const pairs = Object.entries(tableOf(rule))
      expect(pairs).toHaveLength(9)
      for (const [pair, expected] of pairs) {
        for (const letters of [pair, pair.split('').toReversed().join('')]) {
          const counts = noParents(2)
          for (const letter of letters) countParent(counts, states[letter as Letter], false)
          expect(judgeRule(rule, counts), `${rule} of ${letters}`).toBe(expected)
        }
      }
    },
  )

  it.each(triggerRules)('%s waits for all parents, or starts at once where the first decides', (rule) => {
    expect(startsWithoutWaiting(rule)).toBe(rules.without_waiting.includes(words[rule] ?? rule))
    const after = (letter: Letter) => {
      const counts = noParents(2)
      countParent(counts, states[letter], false)
      return judgeRule(rule, counts)
    }
    const letters: readonly Letter[] = ['S', 'F', 'U', 'K']
    const decided = letters.filter((letter) => after(letter) !== 'wait')
    expect(decided.length > 0).toBe(startsWithoutWaiting(rule))
    // what starts early would also start in the end, whatever the other parent does
    const pairs = Object.entries(tableOf(rule)).filter(([pair]) =>
      decided.some((letter) => pair.includes(letter)),
    )
    expect(new Set(pairs.map(([, verdict]) => verdict))).toEqual(new Set(decided.length > 0 ? ['run'] : []))
  })

  it('counts canceled as failed, not run as skipped, an allowed failure as a success', () => {
    const counts = noParents(3)
    countParent(counts, 'canceled', false)
    countParent(counts, 'not_run', false)
    countParent(counts, 'failed', true)
    expect(counts).toEqual({ waiting: 0, succeeded: 1, failed: 1, upstreamFailed: 0, skipped: 1 })
  })

  it.each(triggerRules)('%s starts a task without parents', (rule) => {
    expect(judgeRule(rule, noParents(0))).toBe('run')
  })
})
