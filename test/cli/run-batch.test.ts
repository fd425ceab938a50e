// `belfry run batch`: lines in calls of up to 1,000, a result for each line, exit codes; and the flags by
// which requests become one run.
import { afterAll, beforeEach, expect, it } from 'vitest'
import { startCliRig } from './support/cli.ts'

const rig = await startCliRig()
afterAll(() => rig.close())
const receipt = (n: number, more: object = {}) => ({
  id: `019ad0c1-7f3e-7c63-9a52-${String(n).padStart(12, '0')}`,
  job: 'report',
  dueAt: '2026-11-29T12:00:00.000Z',
  duplicate: false,
  duplicateOf: null,
  gathered: null,
  ...more,
})

let bodies: { items: { input?: number; job?: string }[]; atomic: boolean }[] = []
beforeEach(() => {
  bodies = []
  rig.server.intercept = (seen) => {
    if (seen.route !== 'runBatch') return undefined
    const body = seen.body as (typeof bodies)[number]
    bodies.push(body)
    const results = body.items.map(({ input = 0 }, index) =>
      input === -1
        ? {
            run: null,
            error: {
              code: 'not_found',
              message: 'There is no such job.',
              errors: [{ pointer: `/items/${index}/job`, message: 'is none' }],
            },
          }
        : {
            run: receipt(input, input === 7 ? { duplicate: true, duplicateOf: receipt(1).id } : {}),
            error: null,
          },
    )
    return { status: 200, body: { results, created: 0, duplicates: 0, gathered: 0, refused: 0 } }
  }
})

const linesOf = (inputs: readonly number[]) => inputs.map((input) => JSON.stringify({ input })).join('\n')

it('sends calls of at most 1,000 lines, with the job of the flag', async () => {
  const stdin = linesOf(Array.from({ length: 2_500 }, (_, n) => n + 10))
  const result = await rig.run(['run', 'batch', '-f', '-', '--job', 'report'], { stdin })
  expect(result.code).toBe(0)
  expect(bodies.map(({ items }) => items.length)).toEqual([1_000, 1_000, 500])
  expect(bodies[0]?.items[0]).toEqual({ job: 'report', input: 10 })
  expect(result.err).toContain('Asked for 2500 runs')
})

it('tells each line its result, and fails where one was refused or cannot be read', async () => {
  const stdin = '{"job":"a","input":1}\n\n{"job":"a","input":-1}\n{not json\n{"job":"a","input":7}\n'
  const result = await rig.run(['run', 'batch', '-f', '-', '-o', 'json'], { stdin })
  expect(result.code).toBe(1)
  const results = JSON.parse(result.out) as { line: number; error?: { code: string; errors: object[] } }[]
  expect(results.map(({ line, error }) => [line, error?.code])).toEqual([
    [1, undefined],
    [3, 'not_found'],
    [4, 'malformed_json'],
    [5, undefined],
  ])
  expect(results[1]?.error?.errors).toEqual([{ pointer: '/job', message: 'is none' }])
  expect(result.err).toContain('1 duplicates, 2 refused')
  const lines = await rig.run(['run', 'batch', '-f', '-', '-o', 'jsonl'], { stdin })
  expect(lines.out.trim().split('\n')).toHaveLength(4)
})

it('sends nothing of a file that cannot be read whole where all or nothing is asked for', async () => {
  const result = await rig.run(['run', 'batch', '-f', '-', '--atomic'], { stdin: '{"job":"a"}\n{' })
  expect(result.code).toBe(2)
  expect(result.err).toContain('line 2')
  expect(bodies).toEqual([])
  expect((await rig.run(['run', 'batch', '-f', '-'], { stdin: '\n' })).code).toBe(2)
  expect((await rig.run(['run', 'batch'])).code).toBe(2)
})

it('goes on at a line', async () => {
  await rig.run(['run', 'batch', '-f', '-', '--from-line', '3'], { stdin: linesOf([10, 11, 12]) })
  expect(bodies[0]?.items).toEqual([{ input: 12 }])
})

it('asks with a dedupe key, and makes jobs that debounce or collect', async () => {
  rig.server.intercept = (seen) => {
    if (seen.route === 'runCreate') bodies.push(seen.body as never)
    return undefined
  }
  rig.server.store.addJob('report')
  await rig.run(['run', 'create', 'report', '--dedupe-key', 'k', '--dedupe-window', '1h'])
  expect(bodies[0]).toEqual({ job: 'report', dedupeKey: 'k', dedupe: { windowMs: 3_600_000 } })
  const make = (...flags: string[]) =>
    rig.run(['job', 'create', 'made', '--function', 'f', ...flags, '--dry-run'])
  await make('--debounce', '5s,1m,customerId')
  expect(rig.server.seen.at(-1)?.body).toMatchObject({
    debounce: { windowMs: 5_000, maxWaitMs: 60_000, key: 'customerId' },
  })
  await make('--collect', '100,30s')
  expect(rig.server.seen.at(-1)?.body).toMatchObject({
    collect: { maxItems: 100, windowMs: 30_000, key: null },
  })
  expect((await make('--collect', '100')).code).toBe(2)
})
