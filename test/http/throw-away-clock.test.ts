// A throw-away Belfry whose clock the test sets: schedules, delayed runs and retries happen when their time
// comes, each at its own, on the real engine.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defineJob, fail } from 'belfry'
import { startThrowAwayBelfry, type ThrowAwayBelfry } from 'belfry/testing'
import { startEmbedded } from '@belfry/server'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'

const at: Record<string, string[]> = {}
const note = (name: string, time: Date | null): void => {
  at[name] = [...(at[name] ?? []), time === null ? '-' : time.toISOString()]
}
let tries = 0
const hold = Promise.withResolvers<void>()

const hourly = defineJob({ name: 'hourly', run: (_input, ctx) => note('hourly', ctx.scheduledFor) })
const flaky = defineJob({
  name: 'flaky',
  retry: { maxAttempts: 4, backoff: 'exponential', baseMs: 60_000, capMs: 600_000, jitter: 'none' },
  run: () => {
    tries++
    if (tries < 3) throw new Error('not yet')
    return tries
  },
})
const later = defineJob({ name: 'later', run: () => note('later', belfry.clock.now()) })
const waiting = defineJob({ name: 'waiting', run: () => hold.promise })
const hopeless = defineJob({ name: 'hopeless', run: () => fail('never') })

let belfry: ThrowAwayBelfry
beforeAll(async () => {
  const jobs = [hourly, flaky, later, waiting, hopeless]
  belfry = await startThrowAwayBelfry({ jobs, clock: '2026-01-01T00:30:00Z' })
}, 60_000)
afterAll(() => belfry.stop())

const now = (): string => belfry.clock.now().toISOString()

test('time stands still until it is set, and never goes back', async () => {
  expect(now()).toBe('2026-01-01T00:30:00.000Z')
  const { time: served } = await belfry.client.server()
  expect(served).toBe('2026-01-01T00:30:00.000Z')
  await belfry.clock.advance(1_500)
  expect(now()).toBe('2026-01-01T00:30:01.500Z')
  await expect(belfry.clock.set('2025-12-31T00:00:00Z')).rejects.toMatchObject({ code: 'invalid_request' })
})

test('a schedule fires at each of its times, in order', async () => {
  const { id } = await belfry.client.schedules.create({ name: 'each-hour', cron: '0 * * * *', job: 'hourly' })
  expect(at['hourly']).toBeUndefined()
  await belfry.clock.set('2026-01-01T04:30:00Z')
  const hours = ['01', '02', '03', '04'].map((hour) => `2026-01-01T${hour}:00:00.000Z`)
  expect(at['hourly']).toEqual(hours)
  const occurrences = await belfry.client.schedules.occurrences(id).take(10)
  expect(occurrences.map(({ outcome, lateMs }) => [outcome, lateMs])).toEqual(hours.map(() => ['ran', 0]))
  await belfry.client.schedules.delete(id)
})

test('retries follow when their time has come, and the run tells so', async () => {
  const run = await belfry.enqueue(flaky)
  await belfry.clock.advance(0)
  expect(await belfry.client.runs.get(run.id)).toMatchObject({ state: 'pending', attempts: 1 })
  await belfry.clock.advance(59_000)
  expect(tries).toBe(1)
  await belfry.clock.advance(1_000)
  expect(tries).toBe(2)
  await belfry.clock.advance(3_600_000)
  const ended = await belfry.ended(run)
  expect(ended).toMatchObject({ state: 'succeeded', attempts: 3 })
  const delays = ended.timeline.filter(({ kind }) => kind === 'delay')
  // the clock goes on by itself between the end of an attempt and its record
  const seconds = (from: string, until: string): number =>
    Math.round((Date.parse(until) - Date.parse(from)) / 1_000)
  expect(delays.map(({ reason, at: from, until }) => [reason, seconds(from, until ?? '')])).toEqual([
    ['retry_backoff', 60],
    ['retry_backoff', 120],
  ])
})

test('a delayed run starts at its time', async () => {
  const runAt = new Date(belfry.clock.now().getTime() + 86_400_000)
  await belfry.enqueue(later, undefined, { runAt })
  await belfry.clock.advance(86_399_999)
  expect(at['later']).toBeUndefined()
  await belfry.clock.advance(1)
  expect(at['later']).toEqual([runAt.toISOString()])
})

test('a month passes, and what is under way keeps its lease', async () => {
  const run = await belfry.enqueue(waiting)
  await expect
    .poll(async () => (await belfry.client.runs.get(run.id)).state, { timeout: 10_000 })
    .toBe('running')
  await belfry.clock.advance(30 * 86_400_000, { settle: false })
  expect((await belfry.client.runs.get(run.id)).state).toBe('running')
  hold.resolve()
  expect(await belfry.ended(run)).toMatchObject({ state: 'succeeded', attempts: 1 })
})

test('a run that ends at once is explained', async () => {
  const run = await belfry.enqueue(hopeless)
  await belfry.clock.advance(0)
  expect(await belfry.client.runs.explain(run.id)).toMatchObject({
    verdict: 'ended',
    state: 'failed',
    reason: 'not_retryable',
  })
})

test('without `clock` time is real, and cannot be set', async () => {
  const real = await startThrowAwayBelfry({ work: false })
  onTestFinished(() => real.stop())
  expect(Math.abs(real.clock.now().getTime() - Date.now())).toBeLessThan(10_000)
  await expect(real.clock.advance(1)).rejects.toMatchObject({ code: 'invalid_state' })
}, 60_000)

test('no database that is there already gets such a clock', async () => {
  const common = {
    tenant: 'main',
    functions: new Map(),
    queues: [],
    slots: 1,
    httpSlots: 0,
    schedules: false,
  }
  const remote = startEmbedded({
    ...common,
    settings: { databaseUrl: 'postgres://localhost:1/none' },
    clockAtMs: 0,
  })
  await expect(remote).rejects.toMatchObject({ code: 'invalid_config' })
  const dataDir = mkdtempSync(join(tmpdir(), 'belfry-clock-'))
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  const settings = { dataDir, logLevel: 'silent' }
  const first = await startEmbedded({ ...common, settings })
  await first.stop()
  await expect(startEmbedded({ ...common, settings, clockAtMs: 0 })).rejects.toMatchObject({
    code: 'invalid_config',
  })
}, 60_000)
