// Workflows as code: what they compile to, what the compiler lets through, and what is refused.
import type { Condition, JsonValue } from '@belfry/contract'
import type { Ref, WorkflowBuilder } from '@belfry/sdk'
import { all, at, defineJob, defineWorkflow, equals, is, not, orElse } from '@belfry/sdk'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import { definitionFaults } from '../../../packages/server/src/domain/workflow/definition.ts'

const extract = defineJob({
  name: 'extract',
  input: z.object({ day: z.string() }),
  output: z.object({
    count: z.number(),
    rows: z.array(z.object({ id: z.number(), tags: z.array(z.string()) })),
    'odd/key~': z.string().nullable(),
    note: z.string().optional(),
  }),
  run: () => ({ count: 0, rows: [], 'odd/key~': null }),
})
const load = defineJob({
  name: 'load',
  input: z.object({ table: z.string(), first: z.number(), nested: z.object({ tags: z.array(z.string()) }) }),
  output: z.object({ done: z.boolean() }),
  run: () => ({ done: true }),
})
const each = defineJob({ name: 'each', input: z.number(), output: z.string(), run: () => '' })
const join = defineJob({ name: 'join', input: z.array(z.string()), run: () => null })
const plain = defineJob({ name: 'plain', run: () => null })

const withRows = z.object({ rows: z.array(z.object({ id: z.number(), tags: z.array(z.string()) })) })

const nested = (rows: { readonly output: Ref<z.output<typeof withRows>> }) => ({
  table: 't',
  first: at(rows.output.rows, 0).id,
  nested: { tags: at(rows.output.rows, 0).tags },
})
describe('defineWorkflow', () => {
  it('compiles inputs to constants and mappings, and needs what it takes', () => {
    const { file, jobs } = defineWorkflow({ name: 'nightly', timeoutMs: 60_000 }, (w) => {
      const rows = w.task('extract', extract, {
        input: { day: w.run.scheduledFor },
        retry: { maxAttempts: 5 },
      })
      const other = w.task('plain', plain)
      w.task('load', load, { input: nested(rows), needs: [other], rule: 'all_succeeded', timeoutMs: 500 })
    })
    expect(jobs).toEqual([extract, plain, load])
    expect(file).toMatchObject({ name: 'nightly', timeoutMs: 60_000 })
    expect(file.tasks).toMatchObject([
      {
        id: 'extract',
        job: 'extract',
        needs: [],
        input: {},
        inputFrom: [{ to: '/day', run: 'scheduledFor' }],
        retry: { maxAttempts: 5 },
      },
      { id: 'plain', job: 'plain', inputFrom: [] },
      {
        id: 'load',
        needs: ['plain', 'extract'],
        rule: 'all_succeeded',
        attemptTimeoutMs: 500,
        input: { table: 't', nested: {} },
        inputFrom: [
          { to: '/first', task: 'extract', path: '/rows/0/id' },
          { to: '/nested/tags', task: 'extract', path: '/rows/0/tags' },
        ],
      },
    ])
    expect(definitionFaults(file)).toEqual([])
  })

  it('runs for each item of an output, of the input and of a list; hands their outputs on as a list', () => {
    const { file } = defineWorkflow({ name: 'fan', input: z.object({ ids: z.array(z.number()) }) }, (w) => {
      const rows = w.task('extract', extract, { input: { day: 'x' } })
      const one = w.forEach('one', each, rows.output.rows, (row) => row.id, { concurrency: 3 })
      w.forEach('two', each, w.input.ids, (id) => id)
      w.forEach('three', each, [1, 2], (id) => id, { maxItems: 2 })
      expectTypeOf(one.output).toEqualTypeOf<Ref<readonly string[]>>()
      w.task('join', join, { input: [at(one.output, 0), 'constant'] })
    })
    expect(file.tasks.slice(1)).toMatchObject([
      {
        needs: ['extract'],
        forEach: { from: { task: 'extract', path: '/rows' }, concurrency: 3, maxItems: 1_024 },
        inputFrom: [{ to: '', item: '/id' }],
      },
      { needs: [], forEach: { from: { input: '/ids' } }, inputFrom: [{ to: '', item: '' }] },
      { forEach: { from: { items: [1, 2] }, maxItems: 2 } },
      { needs: ['one'], input: [null, 'constant'], inputFrom: [{ to: '/0', task: 'one', path: '/0' }] },
    ])
    expect(definitionFaults(file)).toEqual([])
  })

  it('writes conditions, defaults, clean-up and pointers of odd keys', () => {
    let when: Condition | undefined
    const { file } = defineWorkflow({ name: 'all', input: z.object({ dry: z.boolean() }) }, (w) => {
      const rows = w.task('extract', extract, {
        input: { day: orElse(w.run.dataIntervalStart, '2026-01-01') },
      })
      when = all(
        is(rows.output.count, { atLeast: 1 }),
        not(equals(w.input.dry, true)),
        rows.endedAs('succeeded'),
      )
      const loaded = w.task('load', load, { input: nested(rows), when, allowFailure: true })
      w.task('drop', plain, { teardownOf: loaded, input: { key: rows.output['odd/key~'] } })
      w.onFailure('tell', plain)
      w.onEnd('tidy', plain)
    })
    expect(file.tasks[0]?.inputFrom).toEqual([
      { to: '/day', run: 'dataIntervalStart', default: '2026-01-01' },
    ])
    expect(when).toEqual({
      all: [
        { task: 'extract', output: '/count', is: { atLeast: 1 } },
        { not: { input: '/dry', is: { equals: true } } },
        { task: 'extract', in: ['succeeded'] },
      ],
    })
    expect(file.tasks[1]).toMatchObject({ when, allowFailure: true })
    expect(file.tasks[2]).toMatchObject({
      teardownOf: 'load',
      inputFrom: [{ to: '/key', task: 'extract', path: '/odd~1key~0' }],
    })
    expect([file.onFailure[0]?.id, file.finally[0]?.id]).toEqual(['tell', 'tidy'])
  })

  it('refuses an id twice, what is no JSON, and fields that do not fit', () => {
    const define = (build: (w: WorkflowBuilder<JsonValue>) => void) => () =>
      defineWorkflow({ name: 'w' }, build)
    expect(define((w) => [w.task('a', plain), w.task('a', plain)])).toThrow(/"a" is the id of another task/)
    expect(define((w) => w.task('a b', plain))).toThrow(/\/tasks\/0\/id use letters/)
    const date = new Date() as unknown as string
    expect(define((w) => w.task('a', plain, { input: { x: date } }))).toThrow(
      /input of the task "a" is not JSON/,
    )
    expect(() => defineWorkflow({ name: 'w', timeoutMs: 1 }, (w) => w.task('a', plain))).toThrow(/timeoutMs/)
  })

  it('a reference is no text', () => {
    defineWorkflow({ name: 'w', input: z.object({ name: z.string() }) }, (w) => {
      const name: unknown = w.input.name
      expect(() => new Set([1]).has(Number(name))).toThrow(TypeError)
      w.task('a', plain)
    })
  })
})

describe('types', () => {
  it('hold inputs to what the job takes', () => {
    defineWorkflow({ name: 'w' }, (w) => {
      const rows = w.task('extract', extract, { input: { day: '2026-01-01' } })
      expectTypeOf(at(at(rows.output.rows, 0).tags, 0)).toEqualTypeOf<Ref<string>>()
      expectTypeOf(rows.output.note).toEqualTypeOf<Ref<string>>()
      // @ts-expect-error: a number where text is taken
      w.task('t1', extract, { input: { day: rows.output.count } })
      // @ts-expect-error: no such field of the output
      expectTypeOf(at(rows.output.rows, 0)).toHaveProperty('name')
      // @ts-expect-error: its input is not optional
      w.task('t3', each)
      // @ts-expect-error: a field of the input is missing
      w.task('t4', load, { input: { table: 't', first: 1 } })
      // @ts-expect-error: text is not compared by size
      is(at(at(rows.output.rows, 0).tags, 0), { atLeast: 1 })
      // @ts-expect-error: a default of another type
      orElse(rows.output.count, 'none')
      // @ts-expect-error: items of another type
      w.forEach('t5', each, rows.output.rows, (row) => row)
    })
  })
})
