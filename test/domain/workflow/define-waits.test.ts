// Tasks that wait and workflows as tasks, as code: what they compile to, and the types of what they give.
import { defineJob, defineWorkflow, type Ref } from '@belfry/sdk'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import { definitionFaults } from '../../../packages/server/src/domain/workflow/definition.ts'

const ship = defineJob({
  name: 'ship',
  input: z.object({ by: z.string(), amount: z.number() }),
  output: z.object({ parcel: z.string(), at: z.string() }),
  run: () => ({ parcel: 'p', at: '2026-12-01T00:00:00Z' }),
})

const order = defineWorkflow(
  {
    name: 'order',
    input: z.object({ customer: z.string() }),
    output: z.object({ parcel: z.string(), customer: z.string() }),
    concurrency: { key: 'customer', keyLimit: 2, onLimit: 'skip' },
  },
  (w) => {
    const ok = w.approval('ok', { message: 'Ship it?', atMostMs: 60_000, onReject: 'skipped' })
    const paid = w.signal('pay', 'paid', { payload: z.object({ amount: z.number() }), needs: [ok] })
    const parcel = w.task('ship', ship, { input: { by: ok.output.by, amount: paid.output.amount } })
    w.waitUntil('later', parcel.output.at)
    w.waitFor('pause', 5_000, { needs: [parcel], allowFailure: true })
    w.output({ parcel: parcel.output.parcel, customer: w.input.customer })
    expectTypeOf(ok.output.by).toEqualTypeOf<Ref<string>>()
    expectTypeOf(paid.output.amount).toEqualTypeOf<Ref<number>>()
  },
)

describe('a workflow as code that waits', () => {
  it('compiles to the same as a file', () => {
    const { file } = order
    expect(definitionFaults(file)).toEqual([])
    expect(file.concurrency).toEqual({ key: 'customer', keyLimit: 2, onLimit: 'skip' })
    expect(file.tasks).toMatchObject([
      {
        id: 'ok',
        approval: { message: 'Ship it?', atMostMs: 60_000, onTimeout: 'failed', onReject: 'skipped' },
      },
      { id: 'pay', needs: ['ok'], wait: { signal: 'paid', onTimeout: 'failed' } },
      { id: 'ship', job: 'ship', needs: ['ok', 'pay'] },
      { id: 'later', needs: ['ship'], wait: { until: { task: 'ship', path: '/at' } } },
      { id: 'pause', needs: ['ship'], wait: { forMs: 5_000 }, allowFailure: true },
    ])
  })

  it('runs another as a task, with its types', () => {
    const { file } = defineWorkflow({ name: 'all' }, (w) => {
      const one = w.workflow('one', order, { input: { customer: 'ada' }, priority: 5 })
      expectTypeOf(one.output.parcel).toEqualTypeOf<Ref<string>>()
      w.workflow('other', { name: 'by-name' }, { needs: [one] })
      w.output({ parcels: [one.output.parcel], version: 1 })
    })
    expect(file.tasks).toMatchObject([
      { id: 'one', workflow: 'order', input: { customer: 'ada' }, priority: 5 },
      { id: 'other', workflow: 'by-name', needs: ['one'] },
    ])
    expect(file.output).toEqual({ parcels: [null], version: 1 })
    expect(file.outputFrom).toEqual([{ to: '/parcels/0', task: 'one', path: '/parcel' }])
  })

  it('waits until an instant, and refuses what is none', () => {
    const of = (instant: string | Date) =>
      defineWorkflow({ name: 'x' }, (w) => {
        w.waitUntil('a', instant)
      }).file.tasks[0]?.wait
    expect(of(new Date(Date.UTC(2030, 0)))).toEqual({ until: { at: '2030-01-01T00:00:00.000Z' } })
    expect(() => of('tomorrow')).toThrow('/tasks/0/wait')
    expect(() =>
      defineWorkflow({ name: 'x' }, (w) => {
        w.waitUntil('a', w.run.id)
      }),
    ).toThrow('no instant')
  })

  it('is refused by the compiler where types do not fit', () => {
    const never = () =>
      defineWorkflow({ name: 'x', output: z.object({ parcel: z.string() }) }, (w) => {
        // @ts-expect-error it is text
        w.output({ parcel: 1 })
        // @ts-expect-error there is no such field in its input
        w.workflow('odd', order, { input: { costumer: 'ada' } })
        // @ts-expect-error it takes an input
        w.workflow('none', order)
      })
    expect(never).toBeTypeOf('function')
  })
})
