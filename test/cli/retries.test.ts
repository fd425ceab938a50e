// Retry policies and limits of whole runs on the command line: what flags say, what is shown, in words that
// tell what to do.
import { reasonWords } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type CliRig, startCliRig } from './support/cli.ts'

let rig: CliRig
beforeAll(async () => {
  rig = await startCliRig()
})
afterAll(() => rig.close())

const http = ['--http', 'https://example.com/']
let names = 0
/** The newest job. */
const name = () => `sync-${names}`
const create = (...flags: string[]) => {
  names++
  return rig.json(['job', 'create', name(), ...http, ...flags])
}

describe('flags of a job', () => {
  test('--retry-delays is a list of durations, and means the backoff list', async () => {
    expect(await create('--retry-delays', '10s,1m, 1h30m', '--retry-jitter', 'none')).toMatchObject({
      retry: { backoff: 'list', delaysMs: [10_000, 60_000, 5_400_000], jitter: 'none' },
    })
    const { code, err } = await rig.run(['job', 'create', 'x', ...http, '--retry-delays', '10'])
    expect([code, err]).toEqual([2, expect.stringContaining('--retry-delays "10" is not a duration')])
  })

  test('codes come one by one or by commas; none takes them away', async () => {
    expect(
      await create('--retry-on', 'http_429,http_5xx', '--retry-on', 'E*', '--never-retry-on', 'http_501'),
    ).toMatchObject({ retry: { retryOn: ['http_429', 'http_5xx', 'E*'], neverRetryOn: ['http_501'] } })
    expect(await rig.json(['job', 'update', name(), '--retry-on', 'none'])).toMatchObject({
      retry: { retryOn: [], neverRetryOn: ['http_501'] },
    })
  })

  test('limits of whole runs, and how to lift them', async () => {
    expect(await create('--run-deadline', '1h', '--start-within', '30s')).toMatchObject({
      runDeadlineMs: 3_600_000,
      startWithinMs: 30_000,
    })
    expect(await rig.json(['job', 'update', name(), '--run-deadline', 'none'])).toMatchObject({
      runDeadlineMs: null,
      startWithinMs: 30_000,
    })
  })

  test('what is refused names its flag', async () => {
    const { code, err } = await rig.run(['job', 'create', 'x', ...http, '--backoff', 'list'])
    expect(code).not.toBe(0)
    expect(err).toContain('--retry-delays')
    expect(err).toContain('is needed with the backoff "list"')
  })

  test('job get says all of it in words', async () => {
    await create('--retry-delays', '10s,1m', '--retry-on', 'http_5xx', '--never-retry-on', 'http_501')
    await rig.run(['job', 'update', name(), '--run-deadline', '1h', '--start-within', '30s'])
    const { out } = await rig.run(['job', 'get', name()])
    expect(out).toMatch(/Backoff +10s, 1m, then the last again, full jitter/)
    expect(out).toMatch(/Tried again on +http_5xx; nothing else/)
    expect(out).toMatch(/Never again on +http_501/)
    expect(out).toMatch(/Whole run +at most 1h after it was due/)
    expect(out).toMatch(/First attempt +within 30s after it was due, else it expires/)
    expect(out).toMatch(/Delivery +at_least_once/)
  })
})

describe('a run', () => {
  test('may have limits of its own', async () => {
    await create('--run-deadline', '1h')
    const argv = ['run', 'create', name(), '--at', '2026-11-30T00:00:00Z']
    expect(await rig.json(argv)).toMatchObject({ startBy: null, runDeadline: '2026-11-30T01:00:00.000Z' })
    const own = ['--start-within', '30s', '--run-deadline', 'none']
    expect(await rig.json([...argv, ...own])).toMatchObject({
      startBy: '2026-11-30T00:00:30.000Z',
      runDeadline: null,
    })
  })

  test('that waits shows by when it must start and end', async () => {
    const run = rig.server.store.addRun({
      startBy: '2026-11-29T12:05:00.000Z',
      runDeadline: '2026-11-29T13:00:00.000Z',
    })
    const { out } = await rig.run(['run', 'get', run.id])
    expect(out).toMatch(/Must start by +.*\(in 5m\)/)
    expect(out).toMatch(/Must end by +.*\(in 1h\)/)
  })

  test('whose outcome is unknown says what that means and what to do, wherever it shows', async () => {
    const run = rig.server.store.addRun({
      state: 'failed',
      reason: 'outcome_unknown',
      delivery: 'at_most_once',
    })
    const { out } = await rig.run(['run', 'get', run.id])
    expect(out).toContain('failed (outcome_unknown)')
    expect(out).toContain(reasonWords.outcome_unknown)
    expect(out).toMatch(/Delivery +at_most_once/)
    const waited = await rig.run(['run', 'wait', run.id])
    expect(waited.err).toContain(reasonWords.outcome_unknown)
    expect((await rig.run(['run', 'list'])).out).toContain('at_most_once')
  })
})
