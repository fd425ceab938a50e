// `belfry schedule explain` and `belfry occurrence list` against the real API: a person's question, "when
// will this run next, and why not yesterday?", answered from the command line alone.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { runAlone } from '../cli/support/cli.ts'
import { startScheduledApi, type ScheduledApi } from '../support/scheduled-api.ts'

let t: ScheduledApi
let env: Record<string, string>
const start = Date.parse('2026-06-01T12:00:00.000Z')
const minuteMs = 60_000
let nowMs = start
beforeAll(async () => {
  t = await startScheduledApi(start)
  env = {
    XDG_CONFIG_HOME: mkdtempSync(join(tmpdir(), 'belfry-cli-')),
    BELFRY_URL: await t.api.listen({ host: '127.0.0.1', port: 0 }),
    BELFRY_API_KEY: t.adminKey,
    TZ: 'UTC',
  }
})
afterAll(async () => {
  rmSync(env['XDG_CONFIG_HOME'] ?? '', { recursive: true, force: true })
  await t.close()
})
const jump = async (ms: number) => {
  await t.time.jump(ms)
  nowMs += ms
}
/** Time passes, and the scheduler looks every half minute. */
const pass = async (ms: number) => {
  for (let restMs = ms; restMs > 0; restMs -= minuteMs / 2) await jump(minuteMs / 2)
}
/** Each test begins at a full ten minutes of its own, with no schedule that fires. */
beforeEach(async () => {
  await t.database.sql('DELETE FROM belfry.timer')
  while ((nowMs - start) % (10 * minuteMs) !== 0 || nowMs === start) await jump(minuteMs / 2)
})
const belfry = (...argv: string[]) => runAlone(argv, { env, now: () => nowMs })

describe('belfry schedule explain', () => {
  it('tells when next, and of the last times what became of them and what to change', async () => {
    await t.make({ name: 'probe', cron: '*/2 * * * *', zone: 'Europe/Berlin' })
    await pass(5 * minuteMs)
    const { code, out } = await belfry('schedule', 'explain', 'probe')
    expect(code).toBe(0)
    expect(out).toMatch(/^probe: It is active; next is Mon 2026-06-01 \d\d:\d6:00 \+02:00, in 1 minute\.\n/)
    expect(out).toContain('Every 2 minutes (Europe/Berlin)\n')
    expect(out).toMatch(/To come\n2026-06-01 \d\d:\d6:00 \+02:00 {2}not yet\n {4}It comes in 1 minute\.\n/)
    expect(out).toMatch(
      /: 2 planned times\n2026-06-01 \d\d:\d2:00 \+02:00 {2}ran\n {4}It ran: the run [0-9a-f-]+ waits/,
    )
    expect(out).toMatch(
      / {2}skipped\n {4}It was skipped: the run before it was still alive.*\n {4}What to do: Set "overlap"/,
    )
  })

  it('answers for one time, and for a day; as JSON the whole', async () => {
    const id = await t.make({ name: 'nightly', cron: '0 * * * *' })
    const atOnce = await belfry('schedule', 'explain', 'nightly', '--at', '2026-05-31T10:00')
    expect(atOnce.out).toMatch(
      /2026-05-31 10:00:00 \+00:00 {2}before creation\n {4}The schedule was made on Mon/,
    )
    const day = await belfry('schedule', 'explain', id, '--at', 'yesterday', '--limit', '2', '-o', 'json')
    expect(JSON.parse(day.out)).toMatchObject({
      schedule: 'nightly',
      from: '2026-05-31T00:00:00.000Z',
      to: '2026-06-01T00:00:00.000Z',
      planned: { count: 24, capped: false },
      more: '2026-05-31T02:00:00.000Z',
    })
    const cut = await belfry('schedule', 'explain', id, '--at', 'yesterday', '--limit', '2')
    expect(cut.out).toContain(
      'There is more: belfry schedule explain nightly --from 2026-05-31T02:00:00.000Z --to',
    )
  })

  it('points at the flag that is wrong', async () => {
    await t.make({ name: 'wrong', every: '1h' })
    const refused = await belfry('schedule', 'explain', 'wrong', '--at', 'someday')
    expect(refused.code).toBe(1)
    expect(refused.err).toMatch(/--at .*"someday" is not a date and time.*or a day: 2026-12-01, today/)
    expect((await belfry('schedule', 'explain', 'wrong', '--at', 'today', '--from', '1d')).err).toContain(
      'give only one of --at, --from',
    )
  })
})

describe('belfry occurrence list', () => {
  it('lists what became of planned times, filtered by outcome and reason', async () => {
    await t.make({ name: 'ledger', every: '2m', catchUp: { policy: 'latest' } })
    await jump(5 * minuteMs)
    await pass(minuteMs / 2)
    const all = await belfry('occurrence', 'list', '--schedule', 'ledger', '-o', 'json')
    expect((JSON.parse(all.out) as { items: unknown[] }).items).toHaveLength(2)
    const missed = await belfry('occurrence', 'list', '--schedule', 'ledger', '--missed')
    expect(missed.out).toMatch(/missed \(catch_up_latest\)/)
    const none = await belfry('occurrence', 'list', '--schedule', 'ledger', '--reason', 'calendar')
    expect(none.err).toMatch(/No planned time on record is like that; next .*belfry schedule explain ledger/)
    const same = await belfry('schedule', 'occurrences', 'ledger', '--missed', '-o', 'json')
    expect((JSON.parse(same.out) as { items: unknown[] }).items).toHaveLength(1)
  })

  it('asks for the schedule, and for one filter of a kind', async () => {
    const asked = await belfry('occurrence', 'list')
    expect([asked.code, asked.err.includes('--schedule nightly')]).toEqual([2, true])
    const both = await belfry('occurrence', 'list', '--schedule', 'x', '--missed', '--outcome', 'ran')
    expect(both.err).toContain('give only one of --outcome, --missed')
  })
})
