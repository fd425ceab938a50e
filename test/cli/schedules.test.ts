// `belfry schedule …` against a server that speaks the contract: what is sent, what people and programs see.
import type { Schedule } from '@belfry/contract'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { startCliRig } from './support/cli.ts'

const rig = await startCliRig()
afterAll(() => rig.close())
beforeEach(() => {
  rig.server.store.schedules.clear()
  rig.server.store.jobs.clear()
  rig.server.seen.length = 0
})

const create = (...flags: string[]) => rig.run(['schedule', 'create', ...flags])
const lastBody = () => rig.server.seen.at(-1)?.body

describe('schedule create', () => {
  it('needs no job: a rate and a URL do', async () => {
    const result = await create('nightly', '--every', '5m', '--http', 'POST', 'https://example.com/hook')
    expect(result.code).toBe(0)
    expect(lastBody()).toEqual({
      name: 'nightly',
      every: '5m',
      handler: { kind: 'http', method: 'POST', url: 'https://example.com/hook' },
    })
    expect(rig.server.seen.at(-1)?.headers['idempotency-key']).toMatch(/^[0-9a-f-]{36}$/)
    expect(result.out).toMatch(
      /^NAME +WHEN +JOB +STATE +NEXT\nnightly +every 5m +nightly +active +2026-11-29 12:05:00 \(in 5m\)\n$/,
    )
    expect(result.err).toContain('Created the schedule nightly: every 5m, first 2026-11-29 12:05:00 (in 5m).')
    expect(result.err).toContain('Next: belfry run list --schedule nightly')
  })

  it('sends everything that was said', async () => {
    const words =
      '--zone=Europe/Berlin --start 2026-12-01T00:00:00Z --end +30d --jitter 90s --overlap allow ' +
      '--catch-up all --catch-up-window 2h --catch-up-max 5 --description monthly --body text ' +
      '--http put https://example.com/r --max-attempts 7 --backoff fixed --retry-base 2s ' +
      '--retry-cap 1m --timeout 30s --delivery at_most_once --queue q'
    const quoted = ['--cron=30 2 * * *', '--header', 'X-Team: billing', '--header', 'Accept: a/b']
    await create('report', ...words.split(' '), ...quoted, '--input', '{"a": [1, null]}')
    expect(lastBody()).toEqual({
      name: 'report',
      cron: '30 2 * * *',
      zone: 'Europe/Berlin',
      startAt: '2026-12-01T00:00:00Z',
      endAt: '2026-12-29T12:00:00.000Z',
      jitterMs: 90_000,
      overlap: 'allow',
      catchUp: { policy: 'all', windowMs: 7_200_000, maxRuns: 5 },
      description: 'monthly',
      handler: {
        kind: 'http',
        method: 'PUT',
        url: 'https://example.com/r',
        headers: { 'X-Team': 'billing', Accept: 'a/b' },
        body: 'text',
      },
      input: { a: [1, null] },
      retry: { maxAttempts: 7, backoff: 'fixed', baseMs: 2_000, capMs: 60_000 },
      attemptTimeoutMs: 30_000,
      delivery: 'at_most_once',
      queue: 'q',
    })
  })

  it('sends how an expression is read, under the name of the dialect itself', async () => {
    const flags = ['--cron', '30 2 1 * 1', '--day-match', 'and', '--dst-gap', 'skip', '--dst-overlap', 'both']
    await create('k', '--dialect', 'k8s', ...flags, '--job', 'x')
    expect(lastBody()).toEqual({
      name: 'k',
      cron: '30 2 1 * 1',
      dialect: 'kubernetes',
      dayMatch: 'and',
      dst: { gap: 'skip', overlap: 'both' },
      job: 'x',
    })
    const shown = (await rig.run(['schedule', 'get', 'k'])).out
    expect(shown).toMatch(/When +kubernetes 30 2 1 \* 1\n/)
    expect(shown).toMatch(/Day match +and\nClock changes +gap skip, overlap both\n/)
    await rig.run(['schedule', 'update', 'k', '--dialect', 'systemd-like', '--cron', '*-*-* 02:30'])
    expect(lastBody()).toEqual({ cron: '*-*-* 02:30', dialect: 'systemd' })
    expect((await create('l', '--dialect', 'cronie', '--cron', '* * * * *', '--job', 'x')).code).toBe(2)
  })

  it('takes calendar words, and prints the words, the first times and the warnings', async () => {
    const every = 'every 2 weeks on fri at 09:00'
    const result = await create('f', '--every', every, '--job', 'x')
    expect(lastBody()).toEqual({ name: 'f', every, job: 'x' })
    expect(result.err).toContain(
      'Every 5 minutes\nFirst times: 2026-11-29 12:05:00 (in 5m); 2026-11-29 12:10:00',
    )
    expect(result.err).toContain(`Created the schedule f: ${every}, first`)
    const warnings = [{ code: 'hot_spot', message: 'it is \u001b[31mred', at: null }]
    rig.server.store.addSchedule('warned', { warnings })
    const shown = (await rig.run(['schedule', 'get', 'warned'])).out
    expect(shown).toMatch(/In words +Every 5 minutes\nWarning +it is .*red \(hot_spot\)\n/)
    expect(shown).not.toContain('\u001b')
    expect(shown).toMatch(/Then +2026-11-29 12:10:00/)
    expect((await rig.run(['schedule', 'update', 'warned', '--jitter', '1s'])).err).toContain('(hot_spot)')
  })

  it('makes a name of its own, and another one when that is taken', async () => {
    const argv = ['--every', '1h', '--http', 'https://example.com/a', '-o', 'name']
    expect((await create(...argv)).out).toBe('example.com-every-1h\n')
    expect((await create(...argv)).out).toBe('example.com-every-1h-2\n')
    expect((await create(...argv)).out).toBe('example.com-every-1h-3\n')
  })

  it('says so when a given name is taken', async () => {
    rig.server.store.addSchedule('nightly')
    const result = await create('nightly', '--every', '5m', '--job', 'x')
    expect(result.code).toBe(1)
    expect(result.err).toContain('There is a schedule "nightly" already; choose another name. (name_taken)')
    expect(result.err).toContain('<name> (/name): is taken')
  })

  it('takes a job by name or by id, and an instant counted from now', async () => {
    const job = rig.server.store.addJob('mail')
    await create('a', '--at', '+10m', '--job', 'mail', '--if-past', 'runNow')
    expect(lastBody()).toEqual({ name: 'a', at: '2026-11-29T12:10:00.000Z', job: 'mail', ifPast: 'runNow' })
    await create('b', '--at', '2026-12-01T02:30', '--zone', 'Europe/Berlin', '--job', job.id)
    expect(lastBody()).toEqual({ name: 'b', at: '2026-12-01T02:30', zone: 'Europe/Berlin', job: 'mail' })
  })

  it('reads bodies and inputs from standard input', async () => {
    const flags = ['--every', '1m', '--http', 'https://a.example', '--body-file', '-']
    await rig.run(['schedule', 'create', 'a', ...flags], { stdin: 'from stdin' })
    expect(lastBody()).toMatchObject({ handler: { body: 'from stdin' } })
    await rig.run(['schedule', 'create', 'b', '--every', '1m', '--job', 'j', '--input', '@-'], {
      stdin: '[1]',
    })
    expect(lastBody()).toMatchObject({ input: [1] })
  })

  it('acts on nothing that a server puts into names, in data and in words', async () => {
    const hostile = rig.server.store.addSchedule('a\u001b[31m\u009b2J')
    rig.server.intercept = () => ({ status: 201, body: hostile })
    const result = await create('n', '--every', '5m', '--job', 'x')
    const asJson = await create('n', '--every', '5m', '--job', 'x', '-o', 'json')
    rig.server.intercept = () => undefined
    expect(result.out).toContain('a\\e[31m\\u{9b}2J')
    expect(result.err).toContain('Created the schedule a\\e[31m\\u{9b}2J')
    expect(JSON.parse(asJson.out)).toEqual(hostile)
    for (const { out, err } of [result, asJson]) expect(out + err).not.toMatch(/[\u001b\u009b]/)
  })

  it('shows what the server noted about the timing', async () => {
    rig.server.intercept = () => ({
      status: 201,
      body: rig.server.store.addSchedule('n', { notes: ['02:30 is skipped'] }),
    })
    const result = await create('n', '--cron', '30 2 * * *', '--job', 'x')
    rig.server.intercept = () => undefined
    expect(result.err).toContain('Note: 02:30 is skipped')
  })

  it('leads to the workflow runs of what runs a workflow', async () => {
    rig.server.intercept = () => ({
      status: 201,
      body: rig.server.store.addSchedule('n', { job: null, jobId: null, workflow: 'w' }),
    })
    const result = await create('n', '--every', '5m', '--workflow', 'w')
    rig.server.intercept = () => undefined
    expect(result.err).toContain('Next: belfry workflow-run list --schedule n')
  })

  it.each([
    [[], /say when/],
    [['--every', '5m'], /say what/],
    [['--every', '5m', '--at', '+1m', '--job', 'x'], /give only one of --every, --at/],
    [['--every', '5m', '--job', 'x', '--http', 'https://a'], /give only one of what runs: --http/],
    [['--every', '5m', '--workflow', 'w', '--job', 'x'], /give only one of what runs: --http/],
    [
      ['--every', '5m', '--job', 'x', '--timeout', '3s'],
      /--timeout belongs to the job: use belfry job update x/,
    ],
    [['--every', '5m', '--job', 'x', '--header', 'A: b'], /--header needs --http/],
    [['--every', '5', '--job', 'x'], /--every "5" is not a rate; write whole seconds or more/],
    [['--every', '0s', '--job', 'x'], /must be longer than 0/],
    [
      ['--every', '5m', '--http', 'https://a', '--body', 'x', '--body-file', 'y'],
      /only one of --body, --body-file/,
    ],
    [['--every', '5m', '--job', 'x', '--input', '{'], /--input is not valid JSON/],
    [['--every', '5m', '--job', 'x', '--input', '@/no/such'], /\/no\/such, which cannot be read \(ENOENT\)/],
    [['--every', '5m', '--job', 'x', '--max-attempts', '0'], /--max-attempts/],
  ])('refuses %j with exit code 2 and asks the server nothing', async (flags, words) => {
    const result = await create('n', ...flags)
    expect(result.err).toMatch(words)
    expect(result.code).toBe(2)
    expect(rig.server.seen).toEqual([])
  })
})

describe('looking', () => {
  it('says what to do when there is nothing', async () => {
    const result = await rig.run(['schedule', 'list'])
    expect(result).toMatchObject({ code: 0, out: '' })
    expect(result.err).toContain('belfry schedule create --every 5m --http POST')
  })

  it('prints each format', async () => {
    const [a, b] = [
      rig.server.store.addSchedule('a'),
      rig.server.store.addSchedule('b', { state: 'paused', nextAt: null }),
    ]
    const items = [a, b].map(
      ({ input: _input, upcoming: _upcoming, warnings: _warnings, ...listed }) => listed,
    )
    expect(await rig.json(['schedule', 'list'])).toEqual({ items, nextCursor: null })
    const lines = (await rig.run(['schedule', 'list', '-o', 'jsonl'])).out.trimEnd().split('\n')
    expect(lines.map((line) => JSON.parse(line) as Schedule)).toEqual(items)
    expect((await rig.run(['schedule', 'list', '-o', 'name'])).out).toBe('a\nb\n')
    expect((await rig.run(['schedule', 'get', 'a', '-o', 'yaml'])).out).toContain('\nevery: 5m\n')
    expect(await rig.json(['schedule', 'get', 'b'])).toEqual(b)
    expect((await rig.run(['schedule', 'list', '--state', 'paused', '-o', 'name'])).out).toBe('b\n')
  })

  it('shows pages and says how to go on', async () => {
    for (const name of ['a', 'b', 'c', 'd', 'e']) rig.server.store.addSchedule(name)
    const first = await rig.run(['schedule', 'list', '--limit', '2', '-o', 'name'])
    expect(first.out).toBe('a\nb\n')
    expect(first.err).toContain('--cursor 2')
    expect((await rig.run(['schedule', 'list', '--limit', '2', '--cursor', '2', '-o', 'name'])).out).toBe(
      'c\nd\n',
    )
    for (const format of ['name', 'jsonl']) {
      const all = await rig.run(['schedule', 'list', '--limit', '2', '--all', '-o', format])
      expect(all.out.trimEnd().split('\n')).toHaveLength(5)
      expect(all.err).toBe('')
    }
    expect(await rig.json(['schedule', 'list', '--limit', '2', '--all'])).toMatchObject({ nextCursor: null })
  })

  it('puts a cron expression into words', async () => {
    rig.server.store.addSchedule('c', { every: null, cron: '30 2 * * *', zone: 'Europe/Berlin' })
    const result = await rig.run(['schedule', 'get', 'c'])
    expect(result.out).toMatch(/When +cron 30 2 \* \* \* Europe\/Berlin\nIn words +Every 5 minutes\n/)
  })

  it('lists what became of each planned time', async () => {
    const { id } = rig.server.store.addSchedule('a')
    const made = {
      scheduleId: id,
      runId: null,
      workflowRunId: null,
      laterRunIds: [],
      firedAt: '2026-11-29T11:00:00.020Z',
      lateMs: 20,
      missedCount: 1,
      detail: null,
    }
    rig.server.store.occurrences.push(
      { ...made, scheduledFor: '2026-11-29T11:00:00.000Z', outcome: 'ran', reason: null },
      {
        ...made,
        scheduledFor: '2026-11-29T10:00:00.000Z',
        outcome: 'missed',
        reason: 'catch_up_latest',
        missedCount: 3,
      },
    )
    const result = await rig.run(['schedule', 'occurrences', 'a', '--since', '1d'])
    expect(result.out).toMatch(/2026-11-29 11:00:00 \(1h ago\) +ran +1 +20 ms/)
    expect(result.out).toMatch(/missed \(catch_up_latest\) +3/)
    expect(rig.server.seen.at(-1)?.query).toMatchObject({ from: '2026-11-28T12:00:00.000Z' })
    const missed = await rig.run(['schedule', 'occurrences', 'a', '--outcome', 'missed', '-o', 'name'])
    expect(missed.out).toBe('2026-11-29T10:00:00.000Z\n')
  })

  it('suggests the nearest name for one that is not there', async () => {
    rig.server.store.addSchedule('nightly')
    const result = await rig.run(['schedule', 'get', 'nigthly'])
    expect(result.code).toBe(1)
    expect(result.err).toContain('There is no schedule "nigthly"; did you mean nightly? (not_found)')
  })
})

describe('changing', () => {
  it('sends only what was given, and null to take a bound away', async () => {
    rig.server.store.addSchedule('a')
    const result = await rig.run([
      'schedule',
      'update',
      'a',
      '--every',
      '1h',
      '--end',
      'none',
      '--catch-up',
      'none',
    ])
    expect(lastBody()).toEqual({ every: '1h', endAt: null, catchUp: { policy: 'none' } })
    expect(result.err).toContain('Changed the schedule a: every 1h')
    expect((await rig.run(['schedule', 'update', 'a'])).code).toBe(2)
  })

  it('pauses with a reason, resumes, deletes', async () => {
    rig.server.store.addSchedule('a')
    const paused = await rig.run(['schedule', 'pause', 'a', '--reason', 'moving'])
    expect(paused.out).toContain('paused')
    expect(paused.err).toContain('Next: belfry schedule resume a')
    expect(lastBody()).toEqual({ reason: 'moving' })
    expect((await rig.run(['schedule', 'resume', 'a'])).err).toContain('Resumed the schedule a')
    const deleted = await rig.run(['schedule', 'delete', 'a', '-o', 'json'])
    expect(deleted).toMatchObject({ code: 0, out: '' })
    expect(rig.server.store.schedules.size).toBe(0)
  })
})
