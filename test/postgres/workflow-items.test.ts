// Edges of forEach on the real engine: none, one, as many as allowed and one more, what is no list, a list of
// a task that was skipped, items of every JSON kind, and the items of another task with items.
import type { JsonValue } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ClaimedTask, openWorkflowRig, type WorkflowRig } from '../support/workflow-rig.ts'

let rig: WorkflowRig
beforeAll(async () => {
  rig = await openWorkflowRig()
})
afterAll(() => rig.close())

const task = (id: string, needs: readonly string[] = [], more: object = {}) => ({
  id,
  job: 'work',
  needs,
  ...more,
})
const over = (from: object, more: object = {}) => ({ forEach: { from, ...more } })

/** Answers the inputs of the runs, as "task" or "task[item]". An answer `failed` or `skipped` is that end. */
async function play(answer: (run: ClaimedTask) => JsonValue = () => null) {
  const inputs: Record<string, JsonValue> = {}
  for (;;) {
    await rig.resolver.runOnce()
    const held = await rig.claim()
    if (held.length === 0) return inputs
    for (const run of held) {
      inputs[run.item === null ? run.task : `${run.task}[${run.item}]`] = run.input
      const result = answer(run)
      if (result === 'failed' || result === 'skipped') await rig.end(run, result)
      else await rig.end(run, 'succeeded', result)
    }
  }
}

describe('forEach', () => {
  it('runs for each item as it is: null, nested, equal ones, empty ones', async () => {
    const items: JsonValue[] = [null, null, { a: { b: [1, { c: null }] } }, [], {}, '', 0, false, 'x', 'x']
    const id = await rig.begin({
      tasks: [
        task('plain', [], over({ items })),
        task('put', [], { ...over({ items }), inputFrom: [{ to: '/it', item: '' }] }),
      ],
    })
    const inputs = await play()
    expect(items.map((_, item) => inputs[`plain[${item}]`])).toEqual(items)
    expect(items.map((_, item) => inputs[`put[${item}]`])).toEqual(items.map((it) => ({ it })))
    expect((await rig.standing(id)).state).toBe('succeeded')
  })

  it('takes as many as maxItems allows, one less or more, and none', async () => {
    const sizes = [0, 1, 2, 3]
    const tasks = sizes.map((size) => task(`n${size}`, [], over({ input: `/${size}` }, { maxItems: 2 })))
    const lists = Object.fromEntries(sizes.map((size) => [size, Array.from({ length: size }, () => 'x')]))
    const id = await rig.begin({ tasks }, lists)
    await play()
    expect(await rig.standing(id)).toEqual({
      state: 'failed',
      tasks: { n0: 'skipped', n1: ['succeeded'], n2: ['succeeded', 'succeeded'], n3: 'failed' },
      notes: { 3: 'the list has 3 items; maxItems allows 2' },
    })
  })

  it.each<[string, JsonValue, string]>([
    ['null', null, 'there is nothing'],
    ['an object', { 0: 'a', length: 1 }, 'what there is is no list'],
    ['a text', 'abc', 'what there is is no list'],
    ['a number', 3, 'what there is is no list'],
  ])('fails over %s, and says so', async (_, list, what) => {
    const id = await rig.begin({
      tasks: [task('list'), task('each', ['list'], over({ task: 'list', path: '' })), task('next', ['each'])],
    })
    await play((run) => (run.task === 'list' ? list : null))
    expect(await rig.standing(id)).toEqual({
      state: 'failed',
      tasks: { list: 'succeeded', each: 'failed', next: 'upstream_failed' },
      notes: { 1: `forEach takes a list, and ${what} at the output of "list"` },
    })
  })

  it('is skipped with its list, and fails where its rule lets it start without one', async () => {
    const id = await rig.begin({
      tasks: [
        task('list'),
        task('each', ['list'], over({ task: 'list', path: '' })),
        task('bold', ['list'], { ...over({ task: 'list', path: '' }), rule: 'all_done' }),
      ],
    })
    await play((run) => (run.task === 'list' ? 'skipped' : null))
    expect(await rig.standing(id)).toMatchObject({
      tasks: { list: 'skipped', each: 'skipped', bold: 'failed' },
      notes: { 2: 'forEach takes a list, and there is nothing at the output of "list"' },
    })
  })

  it('goes over the items of another task that succeeded, and over none where all were skipped', async () => {
    const id = await rig.begin({
      tasks: [
        task('first', [], over({ items: ['a', 'b', 'c', 'd'] })),
        task('second', ['first'], { ...over({ task: 'first', path: '' }), rule: 'all_done' }),
        task('out', [], over({ items: ['a', 'b'] })),
        task('none', ['out'], { ...over({ task: 'out', path: '' }), rule: 'all_done' }),
        task('all', ['first'], { inputFrom: [{ to: '', task: 'first' }], rule: 'all_done' }),
      ],
    })
    const ends: Record<string, JsonValue> = {
      a: 'A',
      b: 'failed',
      c: 'skipped',
      d: null,
    }
    const inputs = await play((run) => {
      if (run.task === 'out') return 'skipped'
      return run.task === 'first' ? (ends[run.input as string] ?? null) : null
    })
    expect([inputs['second[0]'], inputs['second[1]']]).toEqual(['A', null])
    // a list of all keeps the places
    expect(inputs['all']).toEqual(['A', null, null, null])
    expect((await rig.standing(id)).tasks).toMatchObject({
      second: ['succeeded', 'succeeded'],
      none: 'skipped',
    })
  })
})

describe('values', () => {
  it('null is handed on like any other; a default stands in for it', async () => {
    const from = (more: object) => ({ inputFrom: [{ to: '/x', task: 'a', path: '/x', ...more }] })
    const id = await rig.begin({
      tasks: [task('a'), task('b', ['a'], from({})), task('c', ['a'], from({ default: 7 }))],
    })
    const inputs = await play(() => ({ x: null }))
    expect([inputs['b'], inputs['c']]).toEqual([{ x: null }, { x: 7 }])
    expect((await rig.standing(id)).state).toBe('succeeded')
  })

  it('an axis of a matrix may be null', async () => {
    await rig.begin({
      tasks: [task('m', [], { matrix: { os: [null, 'x'] }, inputFrom: [{ to: '/os', item: '/os' }] })],
    })
    const inputs = await play()
    expect([inputs['m[0]'], inputs['m[1]']]).toEqual([{ os: null }, { os: 'x' }])
  })
})
