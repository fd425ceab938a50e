// Definitions that contradict themselves: tasks that can never run are refused with the place and the fix,
// rules that hardly ever hold are warned of, and nothing that an outcome could bring about is refused.
import { workflowDefinitionSchema } from '@belfry/contract'
import { describe, expect, it } from 'vitest'
import {
  definitionFaults,
  definitionWarnings,
} from '../../../packages/server/src/domain/workflow/definition.ts'

const parse = (...tasks: readonly object[]) =>
  workflowDefinitionSchema.parse({ tasks: tasks.map((each) => ({ job: 'work', ...each })) })
const a = (more: object = {}) => ({ id: 'a', ...more })
const b = (more: object) => ({ id: 'b', needs: ['a'], ...more })
const on = (...states: readonly string[]) => ({ task: 'a', in: states })
const input = (is: object) => ({ input: '/mode', is })

describe('tasks that can never run', () => {
  it.each<[string, readonly object[], RegExp]>([
    [
      'a failed parent under all_succeeded',
      [a(), b({ rule: 'all_succeeded', when: on('failed') })],
      /all_succeeded only.*"a" is failed; use the rule all_done/,
    ],
    ['under the usual rule', [a(), b({ when: on('failed') })], /can never hold/],
    [
      'a skipped parent, the only one, under one_success',
      [a(), b({ rule: 'one_success', when: on('skipped') })],
      /never/,
    ],
    ['a success under one_failed', [a(), b({ rule: 'one_failed', when: on('succeeded') })], /never/],
    [
      'an allowed failure under one_failed, which it does not meet',
      [a({ allowFailure: true }), b({ rule: 'one_failed', when: on('failed') })],
      /never/,
    ],
    ['a parent still at work under all_done', [a(), b({ rule: 'all_done', when: on('started') })], /never/],
    [
      'states of which none is common',
      [a(), b({ rule: 'all_done', when: { all: [on('succeeded'), on('failed')] } })],
      /all that is asked of it at once; write \{any/,
    ],
    [
      'a state that is asked for and excluded',
      [a(), b({ rule: 'all_done', when: { all: [on('failed'), { not: on('failed') }] } })],
      /at once/,
    ],
    [
      'two values of one input',
      [a({ when: { all: [input({ equals: 'full' }), input({ equals: 'part' })] } })],
      /\/mode of the input/,
    ],
    [
      'a value that is excluded',
      [a({ when: { all: [input({ oneOf: [1, 2] }), input({ greaterThan: 2 })] } })],
      /\/mode of the input/,
    ],
    [
      'a choice of which no branch can hold',
      [a(), b({ rule: 'all_succeeded', when: { any: [on('failed'), on('skipped')] } })],
      /never/,
    ],
  ])('refuses %s', (_, tasks, words) => {
    const faults = definitionFaults(parse(...tasks))
    expect(faults).toMatchObject([{ code: 'never_runs', pointer: `/tasks/${tasks.length - 1}/when` }])
    expect(faults[0]?.message).toMatch(words)
  })

  it.each<[string, readonly object[]]>([
    ['an allowed failure', [a({ allowFailure: true }), b({ rule: 'all_succeeded', when: on('failed') })]],
    ['a canceled one', [a({ allowFailure: true }), b({ rule: 'one_failed', when: on('canceled') })]],
    ['a decision by the condition alone', [a(), b({ rule: 'all_done', when: on('failed') })]],
    [
      'what another parent starts',
      [a(), { id: 'c' }, b({ needs: ['a', 'c'], rule: 'one_success', when: on('started') })],
    ],
    ['an item that failed', [a({ matrix: { x: [1, 2] } }), b({ rule: 'one_success', when: on('failed') })]],
    [
      'one branch that can hold',
      [a(), b({ rule: 'all_succeeded', when: { any: [on('failed'), on('succeeded')] } })],
    ],
    ['two inputs', [a({ when: { all: [input({ equals: 1 }), { input: '/x', is: { equals: 2 } }] } })]],
    ['one value, said twice', [a({ when: { all: [input({ equals: 1 }), input({ oneOf: [1, 2] })] } })]],
    ['absent, and not a value', [a({ when: { all: [input({ exists: false }), input({ notEquals: 1 })] } })]],
    [
      'a teardown, which no rule decides on',
      [a(), b({ rule: 'all_succeeded', teardownOf: 'a', when: on('failed') })],
    ],
  ])('takes %s', (_, tasks) => {
    expect(definitionFaults(parse(...tasks))).toEqual([])
  })

  it('warns of rules that only a cancel or a mark by hand meets', () => {
    const hardly = (...tasks: readonly object[]) =>
      definitionWarnings(parse(...tasks)).filter(({ code }) => code === 'rule_hardly_holds')
    for (const rule of ['one_failed', 'all_failed']) {
      expect(hardly(a({ allowFailure: true }), b({ rule }))).toMatchObject([
        { pointer: '/tasks/1/rule', message: expect.stringMatching(/take allowFailure off "a"/) as unknown },
      ])
      expect(hardly(a(), b({ rule }))).toEqual([])
    }
    const approval = { job: undefined, approval: { message: 'Go?' } }
    expect(hardly(a(approval), b({ rule: 'all_skipped' }))).toHaveLength(1)
    expect(hardly(a({ ...approval, when: input({ exists: true }) }), b({ rule: 'all_skipped' }))).toEqual([])
    // a job may say by itself that it is skipped
    expect(hardly(a(), b({ rule: 'all_skipped' }))).toEqual([])
  })
})

describe('what a task says twice or over itself', () => {
  const mapped = (...to: readonly string[]) =>
    definitionFaults(parse(a({ inputFrom: to.map((each) => ({ to: each, input: '' })) })))

  it('names the second of two needs', () => {
    expect(definitionFaults(parse(a(), b({ needs: ['a', 'a'] })))).toMatchObject([
      {
        code: 'duplicate_need',
        pointer: '/tasks/1/needs/1',
        message: expect.stringMatching(/needs\/0; keep one/) as unknown,
      },
    ])
  })

  it('names places that are the same or lie in each other', () => {
    const fault = (index: number) => [{ code: 'same_place', pointer: `/tasks/0/inputFrom/${index}/to` }]
    expect(mapped('/x', '/x')).toMatchObject(fault(1))
    expect(mapped('/x', '/x/y')).toMatchObject(fault(1))
    expect(mapped('/x/y', '/x')).toMatchObject(fault(0))
    expect(mapped('', '/x')).toMatchObject(fault(1))
    expect(mapped('/x', '/xy', '/y/x')).toEqual([])
  })

  it.each(['__proto__', 'constructor', 'prototype'])('refuses the name %s in a place', (name) => {
    expect(mapped(`/x/${name}/y`)).toMatchObject([
      { code: 'unsafe_place', pointer: '/tasks/0/inputFrom/0/to' },
    ])
    expect(mapped(`/x${name}`)).toEqual([])
  })
})

describe('items and choices', () => {
  const over = (items: readonly unknown[], more: object = {}) => ({ forEach: { from: { items }, ...more } })
  const faultsOf = (...tasks: readonly object[]) =>
    definitionFaults(parse(...tasks)).map(({ code, pointer, message }) => [code, pointer, message])
  const warningsOf = (...tasks: readonly object[]) =>
    definitionWarnings(parse(...tasks)).map(({ code, pointer }) => [code, pointer])

  it('a constant list that is longer than maxItems is refused with the cap', () => {
    const long = Array.from({ length: 1_025 }, () => null)
    expect(faultsOf(a(over([1, 2, 3], { maxItems: 2 })), { id: 'b', ...over(long) })).toEqual([
      [
        'too_many_items',
        '/tasks/0/forEach/from/items',
        'has 3 items; maxItems allows 2, shorten the list or set maxItems (at most 10000)',
      ],
      ['too_many_items', '/tasks/1/forEach/from/items', expect.stringContaining('maxItems allows 1024')],
    ])
    expect(faultsOf(a(over(long.slice(1))), { id: 'b', ...over(long, { maxItems: 1_025 }) })).toEqual([])
  })

  it('who runs for each item cannot choose', () => {
    expect(faultsOf(a({ ...over([1]), kind: 'branch' }), b({}))).toEqual([
      ['chooses_by_items', '/tasks/0/kind', expect.stringContaining('branch chooses once, and "a" runs for')],
    ])
    expect(faultsOf(a({ matrix: { n: [1] }, kind: 'short_circuit' }), b({}))).toHaveLength(1)
  })

  it('who chooses among nothing is warned of, and so is a list without items', () => {
    expect(warningsOf(a({ kind: 'branch' }), { id: 'c', kind: 'short_circuit' })).toEqual([
      ['chooses_nothing', '/tasks/0/kind'],
      ['chooses_nothing', '/tasks/1/kind'],
    ])
    expect(warningsOf(a({ kind: 'branch' }), b({}))).toEqual([])
    expect(warningsOf(a(over([])))).toEqual([['empty_list', '/tasks/0/forEach/from/items']])
  })
})
