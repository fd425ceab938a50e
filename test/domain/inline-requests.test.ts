// Dedupe keys, debounce and collect in the inline Belfry, as the real one has them.
import { defineJob } from 'belfry'
import { createInlineBelfry } from 'belfry/testing'
import { expect, test } from 'vitest'
import { z } from 'zod'

const plain = defineJob({ name: 'plain', run: (input) => input })
const calls: unknown[] = []
const sums = defineJob({
  name: 'sums',
  input: z.object({ n: z.number(), who: z.string().default('all') }),
  collect: { maxItems: 3, windowMs: 1_000, key: 'who' },
  run: (inputs) => inputs.reduce((sum, { n }) => sum + n, 0),
})
const latest = defineJob({
  name: 'latest',
  debounce: { windowMs: 1_000, maxWaitMs: 1_500 },
  run: (input) => void calls.push(input),
})

test('a key is held while its run waits, or for its window', async () => {
  const belfry = createInlineBelfry({ jobs: [plain] })
  const first = await belfry.enqueue(plain, 1, { dedupeKey: 'k' })
  const again = await belfry.enqueue(plain, 2, { dedupeKey: 'k' })
  expect([first.duplicate, again.duplicate, again.duplicateOf, again.input]).toEqual([
    false,
    true,
    first.id,
    1,
  ])
  await belfry.runDue()
  expect(again.state).toBe('succeeded')
  expect((await belfry.enqueue(plain, 3, { dedupeKey: 'k', dedupe: { windowMs: 5_000 } })).duplicate).toBe(
    false,
  )
  await belfry.runDue()
  expect((await belfry.enqueue(plain, 4, { dedupeKey: 'k' })).duplicate).toBe(true)
  belfry.clock.advance(5_000)
  expect((await belfry.enqueue(plain, 5, { dedupeKey: 'k' })).duplicate).toBe(false)
  expect(belfry.runs()).toHaveLength(3)
})

test('many at once, each with a key of its input', async () => {
  const belfry = createInlineBelfry({ jobs: [plain] })
  const runs = await belfry.enqueueMany(plain, [1, 2, 1], { dedupeKey: (input) => JSON.stringify(input) })
  expect(runs.map(({ duplicate }) => duplicate)).toEqual([false, false, true])
})

test('a job that collects runs once with the list: when it is full, or its window is over', async () => {
  const belfry = createInlineBelfry({ jobs: [sums] })
  const [a, , c, other] = await belfry.enqueueMany(sums, [{ n: 1 }, { n: 2 }, { n: 3 }, { n: 4, who: 'one' }])
  expect([c?.id, c?.gathered?.position]).toEqual([a?.id, 3])
  expect((await belfry.runDue()).map(({ results }) => results[0]?.answer)).toEqual([
    { outcome: 'succeeded', result: 6 },
  ])
  expect(other?.state).toBe('pending')
  belfry.clock.advance(1_000)
  expect(await belfry.runDue()).toHaveLength(1)
  expect(await belfry.run(sums, { n: 7 })).toBe(7)
})

test('a job that debounces runs once with the newest input, no later than it may', async () => {
  const belfry = createInlineBelfry({ jobs: [latest] })
  const { id } = await belfry.enqueue(latest, 'old')
  belfry.clock.advance(900)
  expect((await belfry.enqueue(latest, 'new')).id).toBe(id)
  belfry.clock.advance(500)
  expect(await belfry.runDue()).toEqual([])
  belfry.clock.advance(100)
  expect(await belfry.runDue()).toHaveLength(1)
  expect(calls).toEqual(['new'])
  expect((await belfry.enqueue(latest, 'next')).id).not.toBe(id)
})
