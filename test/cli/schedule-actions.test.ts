// `belfry schedule pause|resume|skip|sleep|wake|trigger` and the flags of a schedule's policies, against a
// server that speaks the contract: what is sent, what people see, how things are taken away.
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { startCliRig } from './support/cli.ts'

const rig = await startCliRig()
afterAll(() => rig.close())
beforeEach(() => {
  rig.server.store.schedules.clear()
  rig.server.seen.length = 0
})

const run = (...argv: string[]) => rig.run(['schedule', ...argv])
const lastBody = () => rig.server.seen.at(-1)?.body

describe('policies', () => {
  it('are sent as they were said', async () => {
    const words =
      'create a --every 5m --job x --flexible-window 10m --overlap buffer_all --run-limit 12 ' +
      '--pause-after-failures 3 --after-completion delete'
    expect((await run(...words.split(' '))).code).toBe(0)
    expect(lastBody()).toEqual({
      name: 'a',
      every: '5m',
      job: 'x',
      flexibleWindowMs: 600_000,
      overlap: 'buffer_all',
      runLimit: 12,
      pauseAfterFailures: 3,
      afterCompletion: 'delete',
    })
  })

  it('are taken away by `none`, as are a day match and a rule for clock changes', async () => {
    rig.server.store.addSchedule('a', { dst: { gap: 'skip', overlap: 'both' }, runLimit: 5, runCount: 2 })
    await run('update', 'a', '--run-limit', 'none', '--pause-after-failures', 'none')
    expect(lastBody()).toEqual({ runLimit: null, pauseAfterFailures: null })
    await run('update', 'a', '--day-match', 'none', '--dst-gap', 'none')
    expect(lastBody()).toEqual({ dayMatch: null, dst: { gap: null } })
    expect((await run('get', 'a')).out).toMatch(/Clock changes +overlap both\n/)
    await run('update', 'a', '--dst-overlap', 'none')
    expect(lastBody()).toEqual({ dst: { overlap: null } })
  })

  it('`none` on a new schedule is the same as nothing', async () => {
    await run('create', 'a', '--cron', '0 9 * * *', '--job', 'x', '--day-match', 'none', '--dst-gap', 'none')
    expect(lastBody()).toEqual({ name: 'a', cron: '0 9 * * *', job: 'x' })
  })

  it.each([
    ['--run-limit', '0', /--run-limit "0" must be a whole number from 1 to 1000000/],
    ['--pause-after-failures', '101', /--pause-after-failures "101" must be a whole number from 1 to 100/],
    ['--overlap', 'queue', /--overlap.*; see belfry schedule create --help/],
    ['--after-completion', 'drop', /--after-completion/],
  ])('refuse %s %s and ask the server nothing', async (flag, value, words) => {
    const result = await run('create', 'a', '--every', '5m', '--job', 'x', flag, value)
    expect(result).toMatchObject({ code: 2, out: '' })
    expect(result.err).toMatch(words)
    expect(rig.server.seen).toEqual([])
  })

  it('are shown with the schedule where they say something', async () => {
    rig.server.store.addSchedule('plain')
    const plain = (await run('get', 'plain')).out
    expect(plain).toMatch(/Delay +none\n/)
    expect(plain).not.toMatch(/Run limit|Pauses|When completed|Asleep/)
    rig.server.store.addSchedule('rich', {
      flexibleWindowMs: 600_000,
      runLimit: 12,
      runCount: 4,
      pauseAfterFailures: 3,
      afterCompletion: 'delete',
      sleepUntil: '2026-11-29T12:05:00.001Z',
      sleepReason: 'plant is closed',
    })
    const { out } = await run('get', 'rich')
    expect(out).toMatch(/Delay +flexible window, a fixed part of 10m\n/)
    expect(out).toMatch(/Run limit +4 of 12 runs started\n/)
    expect(out).toMatch(/Pauses +after 3 failed runs in a row\n/)
    expect(out).toMatch(/When completed +deleted; its history stays\n/)
    expect(out).toMatch(/Asleep +until 2026-11-29 12:05:00 \(in 5m\) \(plant is closed\)\n/)
    // what is next is what runs; the server leaves out what is slept through
    expect(out).toMatch(/Next +2026-11-29 12:05:00 \(in 5m\)\nThen +2026-11-29 12:10:00 \(in 10m\)\n/)
    rig.server.store.addSchedule('one', { jitterMs: 60_000, pauseAfterFailures: 1 })
    expect((await run('get', 'one')).out).toMatch(
      /Delay +jitter, up to 1m, each time anew\n[^]*Pauses +after a failed run\n/,
    )
  })
})

describe('actions', () => {
  beforeEach(() => void rig.server.store.addSchedule('a'))

  it('skip names up to when', async () => {
    const result = await run('skip', 'a', '--count', '2', '--reason', 'stock-taking')
    expect(lastBody()).toEqual({ count: 2, reason: 'stock-taking' })
    expect(result.err).toContain(
      'Set the schedule a to skip what is planned up to 2026-11-29 12:10:00 (in 10m).\n',
    )
    expect(result.err).toContain('Next: belfry schedule wake a')
    await run('skip', 'a')
    expect(lastBody()).toEqual({})
    expect((await run('skip', 'a', '--count', '101')).code).toBe(2)
  })

  it('sleep wants to know until when, wake ends it', async () => {
    const asked = await run('sleep', 'a')
    expect(asked).toMatchObject({ code: 2 })
    expect(asked.err).toContain('say until when: --until +2h')
    expect(rig.server.seen).toEqual([])
    const slept = await run('sleep', 'a', '--until', '+2h', '--reason', 'closed')
    expect(lastBody()).toEqual({ until: '2026-11-29T14:00:00.000Z', reason: 'closed' })
    expect((await run('list')).out).toMatch(/a +active \(asleep\) +2026-11-29 12:05:00/)
    expect(slept.err).toContain('Put the schedule a to sleep until 2026-11-29 14:00:00 (in 2h)')
    const woken = await run('wake', 'a')
    expect(woken.err).toContain('Woke the schedule a; next 2026-11-29 12:05:00 (in 5m).')
    expect((await run('get', 'a')).out).not.toContain('Asleep')
  })

  it('resume can make up for what was passed over', async () => {
    await run('resume', 'a')
    expect(lastBody()).toEqual({})
    const result = await run('resume', 'a', '--backfill-from', '2d')
    expect(rig.server.seen.map(({ body }) => body)).toContainEqual({
      backfillFrom: '2026-11-27T12:00:00.000Z',
    })
    const words = 'a backfill goes through the 24 planned times since 2026-11-27 12:00:00 (2d ago)'
    expect(result.err).toContain(`; ${words}, by its timing of today.`)
    const dry = await run('resume', 'a', '--backfill-from', '2d', '--dry-run')
    expect(dry.err).toContain(words)
    expect(rig.server.store.backfills.size).toBe(1)
  })

  it('an edit of a paused schedule says that it is paused', async () => {
    await run('pause', 'a')
    expect((await run('update', 'a', '--description', 'y')).err).toMatch(
      /Changed the schedule a: every 5m, it is paused\./,
    )
  })

  it('trigger can stand for a planned time', async () => {
    const result = await run('trigger', 'a', '--for', '2026-11-28T02:30:00Z')
    expect(lastBody()).toEqual({ scheduledFor: '2026-11-28T02:30:00Z' })
    expect(result.err).toMatch(/Started a run of a, for 2026-11-28 02:30:00 \(1d 9h ago\): /)
    expect(result.out).toContain('pending')
    const refused = await run('trigger', 'a', '--for', '1d')
    expect(refused).toMatchObject({ code: 2 })
    expect(refused.err).toContain('--for "1d" is not an instant')
  })

  it('a reason that an occurrence carries is shown', async () => {
    const { id } = rig.server.store.addSchedule('b')
    const made = {
      scheduleId: id,
      runId: null,
      workflowRunId: null,
      firedAt: '2026-11-29T11:00:00Z',
      lateMs: 0,
      missedCount: 1,
    }
    rig.server.store.occurrences.push({
      ...made,
      laterRunIds: [],
      scheduledFor: '2026-11-29T11:00:00Z',
      outcome: 'skipped',
      reason: 'asleep',
      detail: 'plant is closed',
    })
    expect((await run('occurrences', 'b')).out).toContain('skipped (asleep: plant is closed)')
  })
})
