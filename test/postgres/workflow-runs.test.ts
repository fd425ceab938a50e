// Workflow runs on the real engine: outputs, items, conditions, cancels; each task started once, whatever is
// doubled, raced or cut off.
import type { JsonValue } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ResolvingTx, WorkflowResolving } from '../../packages/server/src/ports/workflow-runs.ts'
import { openWorkflowRig, type WorkflowRig } from '../support/workflow-rig.ts'

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
const sql = <Row extends Record<string, unknown>>(text: string, params: readonly unknown[] = []) =>
  rig.fixture.database.sql<Row>(text, [...params])

/** Ends what is claimed, round by round, as `answer` says; answers the tasks in the order of their starts. */
async function play(answer: (task: string, item: number | null) => JsonValue | undefined = () => null) {
  const started: string[] = []
  for (;;) {
    await rig.resolver.runOnce()
    const held = await rig.claim()
    if (held.length === 0) return started
    for (const run of held) {
      started.push(run.item === null ? run.task : `${run.task}[${run.item}]`)
      const result = answer(run.task, run.item)
      await (result === undefined ? rig.end(run, 'failed') : rig.end(run, 'succeeded', result))
    }
  }
}

const runsOf = (id: string) =>
  sql<{ task: number; item: number | null; count: number; input: JsonValue }>(
    `SELECT task, item, count(*)::int AS count, (array_agg(input))[1] AS input FROM belfry.run
     WHERE workflow_run_id = $1 GROUP BY task, item ORDER BY task, item`,
    [id],
  )
const leftovers = (id: string) =>
  sql(
    `SELECT 'progress' FROM belfry.workflow_progress WHERE workflow_run_id = $1
     UNION ALL SELECT 'task' FROM belfry.task_run WHERE workflow_run_id = $1
     UNION ALL SELECT 'event' FROM belfry.workflow_event WHERE workflow_run_id = $1`,
    [id],
  )

describe('a workflow run', () => {
  it('starts tasks when their parents have ended, and ends with them', async () => {
    const id = await rig.begin({
      tasks: [task('a'), task('b', ['a']), task('c', ['a']), task('d', ['b', 'c'])],
    })
    expect((await rig.standing(id)).state).toBe(null)
    expect(await play()).toEqual(['a', 'b', 'c', 'd'])
    expect(await rig.standing(id)).toMatchObject({
      state: 'succeeded',
      tasks: { a: 'succeeded', d: 'succeeded' },
    })
    expect(await leftovers(id)).toEqual([])
    expect(rig.hints.published).toContainEqual({ topic: 'ready', key: 'default' })
  })

  it('hands outputs, input and defaults on to tasks, and fails one whose value is missing', async () => {
    const inputFrom = [
      { to: '/rows', task: 'a', path: '/rows' },
      { to: '/day', input: '/day' },
      { to: '/deep/x', task: 'a', path: '/no', default: 7 },
      { to: '/run', run: 'id' },
    ]
    const b = task('b', ['a'], { input: { deep: { y: 1 } }, inputFrom })
    const c = task('c', ['a'], { inputFrom: [{ to: '', task: 'a', path: '/no' }] })
    const id = await rig.begin({ tasks: [task('a'), b, c, task('d', ['c'])] }, { day: 'monday' })
    await play(() => ({ rows: [1, 2] }))
    expect((await runsOf(id))[1]?.input).toEqual({
      rows: [1, 2],
      day: 'monday',
      deep: { x: 7, y: 1 },
      run: id,
    })
    expect(await rig.standing(id)).toEqual({
      state: 'failed',
      tasks: { a: 'succeeded', b: 'succeeded', c: 'failed', d: 'upstream_failed' },
      notes: { 2: '/no of "a" is not there, and there is no default for it' },
    })
  })

  it('looks at outputs in conditions, and lets a branch choose', async () => {
    const when = { task: 'a', output: '/n', is: { atLeast: 5 } }
    const tasks = [
      task('a'),
      task('many', ['a'], { when }),
      task('few', ['a'], { when: { not: when } }),
      task('branch', ['a'], { kind: 'branch' }),
      task('left', ['branch']),
      task('right', ['branch']),
      task('gate', ['a'], { kind: 'short_circuit' }),
      task('behind', ['gate']),
    ]
    const id = await rig.begin({ tasks })
    await play((name) => ({ a: { n: 7 }, branch: ['right'], gate: false })[name] ?? null)
    expect((await rig.standing(id)).tasks).toMatchObject({
      many: 'succeeded',
      few: 'skipped',
      left: 'skipped',
      right: 'succeeded',
      behind: 'skipped',
    })
  })

  it('runs for each item, so many at a time, and hands their outputs on as a list', async () => {
    const each = task('each', ['a'], {
      forEach: { from: { task: 'a', path: '' }, concurrency: 2 },
      inputFrom: [{ to: '/n', item: '/n' }],
    })
    const join = task('join', ['each'], { inputFrom: [{ to: '', task: 'each' }] })
    const id = await rig.begin({ tasks: [task('a'), each, join] })
    await rig.resolver.runOnce()
    const [a] = await rig.claim()
    if (a !== undefined) await rig.end(a, 'succeeded', [{ n: 1 }, { n: 2 }, { n: 3 }, { n: 4 }, { n: 5 }])
    const widths: number[] = []
    for (;;) {
      await rig.resolver.runOnce()
      const held = (await rig.claim()).filter((run) => run.task === 'each')
      if (held.length === 0) break
      widths.push(held.length)
      const [first] = held
      if (first !== undefined) await rig.end(first, 'succeeded', Number(first.item) * 10)
    }
    expect(widths).toEqual([2, 2, 2, 2, 1])
    await play()
    const made = await runsOf(id)
    expect(made.filter((run) => run.task === 1).map((run) => run.input)).toEqual(
      [1, 2, 3, 4, 5].map((n) => ({ n })),
    )
    expect(made.at(-1)?.input).toEqual([0, 10, 20, 30, 40])
    expect((await rig.standing(id)).state).toBe('succeeded')
  })

  it('runs a matrix; no items skip a task; what is no list fails it', async () => {
    const tasks = [
      task('grid', [], { matrix: { os: ['a', 'b'], size: [1, 2] } }),
      task('none', [], { forEach: { from: { input: '/none' } } }),
      task('odd', [], { forEach: { from: { input: '/odd' } } }),
      task('many', [], { forEach: { from: { input: '/many' }, maxItems: 2 } }),
    ]
    const id = await rig.begin({ tasks }, { none: [], odd: 'x', many: [1, 2, 3] })
    await play()
    expect((await runsOf(id)).map((run) => run.input)).toEqual([
      { os: 'a', size: 1 },
      { os: 'a', size: 2 },
      { os: 'b', size: 1 },
      { os: 'b', size: 2 },
    ])
    const { state, tasks: states, notes } = await rig.standing(id)
    expect([state, states['none'], states['odd'], states['many']]).toEqual([
      'failed',
      'skipped',
      'failed',
      'failed',
    ])
    expect(notes).toMatchObject({ 2: /is no list/, 3: /has 3 items; maxItems allows 2/ })
  })

  it('is canceled: what waits ends, what runs is asked, finally runs', async () => {
    const id = await rig.begin({
      tasks: [task('runs'), task('next', ['runs']), task('items', [], { matrix: { n: [1, 2, 3] } })],
      finally: [task('tidy')],
    })
    await rig.resolver.runOnce()
    const [first] = await rig.claim()
    expect(first?.task).toBe('runs')
    await rig.cancel(id)
    await rig.resolver.runOnce()
    const held = await rig.claim()
    expect(held.every((run) => run.cancelRequested)).toBe(true)
    for (const run of held) await rig.end(run, 'canceled')
    expect(await play()).toEqual(['tidy'])
    expect(await rig.standing(id)).toMatchObject({
      state: 'canceled',
      tasks: { runs: 'canceled', next: 'canceled', tidy: 'succeeded' },
    })
    expect(await leftovers(id)).toEqual([])
  })

  it('ends in time: after its deadline it fails, and onFailure runs', async () => {
    const id = await rig.begin({ tasks: [task('slow')], onFailure: [task('tell')] })
    await rig.resolver.runOnce()
    await sql(
      `UPDATE belfry.workflow_progress SET deadline = belfry.now() - interval '1 s'
       WHERE workflow_run_id = $1`,
      [id],
    )
    await rig.resolver.runOnce()
    expect(await play()).toEqual(['tell'])
    expect(await rig.standing(id)).toMatchObject({
      state: 'failed',
      tasks: { slow: 'canceled', tell: 'succeeded' },
    })
  })
})

describe('exactly once', () => {
  const diamond = { tasks: [task('a'), task('b', ['a']), task('c', ['a']), task('d', ['b', 'c'])] }

  it('ends that are told again change nothing', async () => {
    const id = await rig.begin(diamond)
    await rig.resolver.runOnce()
    const [a] = await rig.claim()
    if (a === undefined) throw new Error('Nothing was started.')
    await rig.end(a, 'succeeded')
    const again = () =>
      sql(
        `INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind, run_id)
         SELECT $1, $2, 'end', $3 FROM generate_series(1, 3)`,
        [id, rig.fixture.tenantId, a.runId],
      )
    await again()
    await sql(
      `INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind) VALUES ($1, $2, 'begin')`,
      [id, rig.fixture.tenantId],
    )
    await rig.resolver.runOnce()
    await again()
    await play()
    await again()
    await rig.resolver.runOnce()
    await rig.resolving.mend()
    expect((await runsOf(id)).map((run) => run.count)).toEqual([1, 1, 1, 1])
    expect((await rig.standing(id)).state).toBe('succeeded')
    expect(await leftovers(id)).toEqual([])
  })

  it('an end that nobody told of is found', async () => {
    const id = await rig.begin({ tasks: [task('a'), task('b', ['a'])] })
    await rig.resolver.runOnce()
    const [a] = await rig.claim()
    if (a !== undefined) await rig.end(a, 'succeeded')
    await sql(`DELETE FROM belfry.workflow_event WHERE workflow_run_id = $1`, [id])
    expect(await play()).toEqual([])
    expect(await rig.resolving.mend()).toBe(1)
    expect(await play()).toEqual(['b'])
    expect((await rig.standing(id)).state).toBe('succeeded')
  })

  it('four resolvers at once start each task once', async () => {
    const wide = Array.from({ length: 30 }, (_, n) => task(`w${n}`, ['a']))
    const last = task(
      'last',
      wide.map(({ id }) => id),
    )
    const ids = await Promise.all(
      Array.from({ length: 8 }, () => rig.begin({ tasks: [task('a'), ...wide, last] })),
    )
    const resolvers = Array.from({ length: 4 }, () => rig.newResolver())
    for (;;) {
      await Promise.all(resolvers.map((resolver) => resolver.runOnce()))
      const held = await rig.claim()
      if (held.length === 0) break
      // ends and rounds at the same time
      const ends = held.map((run) => rig.end(run, 'succeeded'))
      await Promise.all([...ends, ...resolvers.map((resolver) => resolver.runOnce())])
    }
    for (const id of ids) {
      expect((await runsOf(id)).map((run) => run.count)).toEqual(Array.from({ length: 32 }, () => 1))
      expect((await rig.standing(id)).state).toBe('succeeded')
      expect(await leftovers(id)).toEqual([])
    }
  })

  it('a round that is cut off before or after any of its statements has done nothing', async () => {
    const id = await rig.begin(diamond)
    let cuts = 0
    /** Its transactions end before statement number `at`, counted from 0. */
    const cutAt = (at: number): WorkflowResolving => ({
      ...rig.resolving,
      within: (work) =>
        rig.resolving.within((tx) => {
          let calls = 0
          const cut = <Args extends unknown[], T>(call: (...args: Args) => Promise<T>) => {
            return (...args: Args): Promise<T> => {
              if (calls++ < at) return call(...args)
              cuts += 1
              return Promise.reject(new Error('cut off'))
            }
          }
          const cutting: ResolvingTx = {
            waits: tx.waits,
            turns: tx.turns,
            lockDue: cut(tx.lockDue),
            begunWith: cut(tx.begunWith),
            version: cut(tx.version),
            outputs: cut(tx.outputs),
            templates: cut(tx.templates),
            start: cut(tx.start),
            cancel: cut(tx.cancel),
            save: cut(tx.save),
            goOn: cut(tx.goOn),
          }
          return work(cutting)
        }),
    })
    for (;;) {
      const before = await sql(`SELECT * FROM belfry.workflow_progress WHERE workflow_run_id = $1`, [id])
      for (let at = 0; at < 12; at++) {
        const cutsBefore = cuts
        const cut = rig.newResolver(cutAt(at))
        await cut.runOnce().catch(() => undefined)
        if (cuts === cutsBefore) break
        expect(await sql(`SELECT * FROM belfry.workflow_progress WHERE workflow_run_id = $1`, [id])).toEqual(
          before,
        )
      }
      await rig.resolver.runOnce()
      const held = await rig.claim()
      if (held.length === 0) break
      for (const run of held) await rig.end(run, 'succeeded')
    }
    expect(cuts).toBeGreaterThan(15)
    expect((await runsOf(id)).map((run) => run.count)).toEqual([1, 1, 1, 1])
    expect((await rig.standing(id)).state).toBe('succeeded')
  })
})
