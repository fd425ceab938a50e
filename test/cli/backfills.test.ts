// Backfills on the command line, with a server that only speaks the contract.
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { startCliRig } from './support/cli.ts'

const rig = await startCliRig()
afterAll(() => rig.close())
beforeEach(() => {
  rig.server.store.backfills.clear()
  rig.server.store.schedules.clear()
  rig.server.seen.length = 0
  rig.server.store.addSchedule('nightly')
})

const lastBody = () => rig.server.seen.at(-1)?.body

describe('schedule backfill', () => {
  it('sends what was said, and leaves the rest to the server', async () => {
    const all = ['--order', 'newest_first', '--concurrency', '2', '--reprocess', 'failed', '--input', '[1]']
    const bounds = ['--from', '2d', '--to', '2026-11-29T00:00:00Z']
    const made = await rig.run(['schedule', 'backfill', 'nightly', ...bounds, ...all])
    expect(made).toMatchObject({ code: 0 })
    expect(made.err).toMatch(
      /Started a backfill of nightly: 24 planned times, [0-9a-f-]{36}\.\nNext: belfry backfill get/,
    )
    expect(lastBody()).toEqual({
      from: '2026-11-27T12:00:00.000Z',
      to: '2026-11-29T00:00:00Z',
      order: 'newest_first',
      concurrency: 2,
      reprocess: 'failed',
      input: [1],
    })
    await rig.run(['schedule', 'backfill', 'nightly', '--from', '1d'])
    expect(lastBody()).toEqual({ from: '2026-11-28T12:00:00.000Z' })
  })

  it.each(['--preview', '--dry-run'])('with %s shows what would run, and stores nothing', async (flag) => {
    const shown = await rig.run(['schedule', 'backfill', 'nightly', '--from', '1d', flag])
    expect(shown.code).toBe(0)
    expect(shown.out).toMatch(/Would run +19\n/)
    expect(shown.out).toMatch(/Have run +5\n +of those +4 succeeded, 1 failed, 0 canceled, 0 alive\n/)
    expect(shown.out).toMatch(/First +2026-11-28 12:00:00\n +2026-11-28 13:00:00\nLast +2026-11-29 11:00:00/)
    expect(shown.err).toContain('nothing was stored: would start a backfill of nightly')
    expect(rig.server.seen.at(-1)?.query['dryRun']).toBe('true')
    expect(rig.server.store.backfills.size).toBe(0)
    const json = await rig.json(['schedule', 'backfill', 'nightly', '--from', '1d', flag])
    expect(json).toMatchObject({ total: 24, preview: { exact: true, wouldRun: 19 } })
  })

  it('asks from when', async () => {
    const refused = await rig.run(['schedule', 'backfill', 'nightly'])
    expect(refused).toMatchObject({ code: 2 })
    expect(refused.err).toContain('say from when: --from 7d')
  })

  it.each([
    [['--concurrency', '101'], '1 to 100'],
    [['--order', 'upwards'], 'oldest_first'],
    [['--from', '5'], '--from'],
  ])('refuses %j on this machine', async (flags, words) => {
    const refused = await rig.run(['schedule', 'backfill', 'nightly', '--from', '1d', ...flags])
    expect(refused).toMatchObject({ code: 2 })
    expect(refused.err).toContain(words)
  })
})

describe('backfill', () => {
  it('list and get say how far each has come', async () => {
    const parts = { state: 'running', started: 9, skipped: 3, alive: 2, succeeded: 6, failed: 1 } as const
    const { id } = rig.server.store.addBackfill(parts)
    const list = await rig.run(['backfill', 'list', '--state', 'running'])
    expect(list.out).toMatch(/nightly +2026-11-28 12:00:00 to 2026-11-29 12:00:00 +running +12\/24 +1 +2/)
    const one = await rig.run(['backfill', 'get', id])
    expect(one.out).toMatch(/Planned times +12 of 24 looked at, 9 started/)
    expect(one.out).toMatch(/Runs +6 succeeded, 1 failed, 0 canceled, 2 alive/)
    expect(await rig.json(['backfill', 'get', id])).toMatchObject({ id, state: 'running' })
  })

  it('list says what to do where there is none', async () => {
    expect((await rig.run(['backfill', 'list'])).err).toContain('No backfills yet. See what one would do:')
    const filtered = await rig.run(['backfill', 'list', '--schedule', 'nightly', '--state', 'paused'])
    expect(filtered.err).toContain('No backfills match')
  })

  it('pause, resume and cancel say what goes on', async () => {
    const { id } = rig.server.store.addBackfill({ alive: 2 })
    const paused = await rig.run(['backfill', 'pause', id, '--reason', 'peak hours'])
    expect(lastBody()).toEqual({ reason: 'peak hours' })
    expect(paused.err).toContain('Paused the backfill of nightly; 2 runs go on.')
    expect((await rig.run(['backfill', 'resume', id])).err).toContain(
      'Resumed the backfill of nightly: 0 of 24',
    )
    await rig.run(['backfill', 'cancel', id])
    expect(lastBody()).toEqual({ cancelRuns: false })
    const canceled = await rig.run(['backfill', 'cancel', id, '--cancel-runs', '--reason', 'wrong input'])
    expect(lastBody()).toEqual({ cancelRuns: true, reason: 'wrong input' })
    expect(canceled.err).toContain('its workers were asked to stop')
  })

  it.each([
    ['completed, all well', { state: 'completed', started: 24, succeeded: 24 }, 0],
    ['completed, one failed', { state: 'completed', started: 24, succeeded: 23, failed: 1 }, 5],
    ['canceled', { state: 'canceled', started: 1, succeeded: 1 }, 5],
  ] as const)('wait: %s', async (_what, parts, code) => {
    const { id } = rig.server.store.addBackfill(parts)
    const waited = await rig.run(['backfill', 'wait', id])
    expect(waited.code).toBe(code)
    expect(waited.err).toMatch(/(?:completed|canceled): \d+ of 24 looked at/)
    expect(waited.err.includes(`belfry run list --backfill ${id} --state failed`)).toBe('failed' in parts)
  })

  it('wait gives up in time, and asks for an id', async () => {
    const { id } = rig.server.store.addBackfill({ state: 'running' })
    const late = await rig.run(['backfill', 'wait', id, '--timeout', '1ms'])
    expect(late.code).toBe(6)
    expect(late.err).toContain(`Backfill ${id} is still running`)
    const refused = await rig.run(['backfill', 'get', 'nightly'])
    expect(refused.err).toContain('"nightly" is not the id of a backfill')
  })
})
