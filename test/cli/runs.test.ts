// `belfry run …` and the waits: exit codes 0, 5 and 6, logs with what each attempt answered, nothing of it
// acted on.
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { startCliRig } from './support/cli.ts'
import { attempt } from './support/contract-records.ts'

const rig = await startCliRig()
afterAll(() => rig.close())
beforeEach(() => {
  rig.server.store.runs.clear()
  rig.server.store.jobs.clear()
  rig.server.seen.length = 0
})

const failedAttempt = attempt({
  outcome: 'failed',
  httpStatus: 500,
  error: { code: 'http_status', message: 'the target answered 500' },
  response: 'line one\nline \u001b[31mtwo\u009b2J',
  responseTruncated: true,
  retryAt: '2026-11-29T12:00:30.000Z',
})
const ended = {
  startedAt: '2026-11-29T12:00:01.000Z',
  finishedAt: '2026-11-29T12:00:03.500Z',
  lateMs: 12,
  attempts: 1,
}

describe('run create', () => {
  it('asks for a run and says how to wait for it', async () => {
    rig.server.store.addJob('report')
    const result = await rig.run([
      'run',
      'create',
      'report',
      '--at',
      '+10m',
      '--input',
      '{"a":1}',
      '--priority',
      '-5',
    ])
    expect(result.code).toBe(0)
    expect(rig.server.seen.at(-1)?.body).toEqual({
      job: 'report',
      input: { a: 1 },
      runAt: '2026-11-29T12:10:00.000Z',
      priority: -5,
    })
    expect(result.err).toMatch(/Next: belfry run wait [0-9a-f-]{36}/)
  })
})

describe('waiting', () => {
  it('answers 0 when the run succeeds, telling its states on the way', async () => {
    const { id } = rig.server.store.addRun()
    let asked = 0
    rig.server.intercept = (seen) => {
      if (seen.route !== 'runGet' && seen.route !== 'runWait') return undefined
      asked += 1
      const run = rig.server.store.runs.get(id)
      if (run === undefined) return undefined
      if (asked === 2) rig.server.store.runs.set(id, { ...run, state: 'running', attempts: 1, lateMs: 12 })
      if (asked === 3) rig.server.store.runs.set(id, { ...run, state: 'succeeded', ...ended })
      return undefined
    }
    const result = await rig.run(['run', 'wait', id, '--timeout', '10s'])
    rig.server.intercept = () => undefined
    expect(result.code).toBe(0)
    expect(result.err).toContain(`Run ${id}: pending\nRun ${id}: running, attempt 1 of 3, 12 ms late\n`)
    expect(result.out).toMatch(/succeeded +1\/3 .* 12 ms +2\.5 s/)
  })

  it('answers 5 when it does not, with the reason and where to look', async () => {
    const run = rig.server.store.addRun({
      state: 'failed',
      reason: 'attempts_exhausted',
      attemptList: [failedAttempt],
      ...ended,
    })
    const result = await rig.run(['run', 'wait', run.id])
    expect(result.code).toBe(5)
    expect(result.err).toContain(
      'The run ended failed (attempts_exhausted): the target answered 500 (http_status)\nNext: belfry run',
    )
    expect((await rig.run(['run', 'wait', run.id, '-q'])).err).toBe('')
  })

  it('answers 6 when the time runs out', async () => {
    const run = rig.server.store.addRun()
    const result = await rig.run(['run', 'wait', run.id, '--timeout', '50ms', '-o', 'json'])
    expect(result.code).toBe(6)
    expect(JSON.parse(result.out)).toMatchObject({ code: 'wait_timeout' })
    expect(result.err).toContain(`Run ${run.id} is still pending`)
  })

  it('works from trigger and create', async () => {
    const schedule = rig.server.store.addSchedule('nightly')
    rig.server.intercept = (seen) => {
      for (const run of rig.server.store.runs.values()) {
        if (seen.route === 'runGet')
          rig.server.store.runs.set(run.id, { ...run, state: 'canceled', ...ended })
      }
      return undefined
    }
    const argv = ['schedule', 'trigger', schedule.id, '--wait', '--timeout', '5s', '-o', 'json']
    const result = await rig.run(argv)
    rig.server.intercept = () => undefined
    expect(result.code).toBe(5)
    expect(JSON.parse(result.out)).toMatchObject({ state: 'canceled', source: 'trigger' })
  })
})

describe('run list', () => {
  it('filters by state, job, schedule and time', async () => {
    const job = rig.server.store.addJob('report')
    rig.server.store.addRun({ jobId: job.id, state: 'failed' })
    rig.server.store.addRun({ state: 'succeeded' })
    const argv = [
      'run',
      'list',
      '--state',
      'failed,running',
      '--state',
      'pending',
      '--job',
      'report',
      '--since',
      '1h',
    ]
    const result = await rig.run([...argv, '-o', 'json'])
    expect(rig.server.seen.at(-1)?.query).toEqual({
      state: 'pending,running,failed',
      jobId: job.id,
      createdAfter: '2026-11-29T11:00:00.000Z',
    })
    expect(JSON.parse(result.out)).toMatchObject({ items: [{ state: 'failed' }] })
    expect((await rig.run(['run', 'list', '--state', 'wrong'])).code).toBe(2)
    expect((await rig.run(['run', 'list', '--state', 'skipped'])).err).toContain('No runs match')
  })
})

describe('run logs', () => {
  it('shows each attempt with what it answered, made harmless', async () => {
    const second = attempt({ number: 2 })
    const run = rig.server.store.addRun({
      state: 'succeeded',
      attemptList: [failedAttempt, second],
      ...ended,
    })
    const result = await rig.run(['run', 'logs', run.id])
    expect(result.out).toBe(
      [
        'Attempt 1: failed after 120 ms, HTTP 500, started 2026-11-29 12:00:01',
        '  error: the target answered 500 (http_status)',
        '  response, the first 26 bytes:',
        '    line one',
        '    line \\e[31mtwo\\u{9b}2J',
        '  next attempt due 2026-11-29 12:00:30 (in 30s)',
        'Attempt 2: succeeded after 120 ms, HTTP 200, started 2026-11-29 12:00:01',
        '  response:',
        '    ok',
        '',
      ].join('\n'),
    )
    expect(await rig.json(['run', 'logs', run.id])).toEqual([failedAttempt, second])
  })

  it('says when there is none yet', async () => {
    const run = rig.server.store.addRun()
    expect((await rig.run(['run', 'logs', run.id])).err).toContain('No attempt yet: the run is pending')
  })
})

describe('run get and cancel', () => {
  it('shows a run in full', async () => {
    const run = rig.server.store.addRun({ attemptList: [failedAttempt], input: { a: 1 } })
    const { out } = await rig.run(['run', 'get', run.id])
    expect(out).toMatch(/Idempotency key +/)
    expect(out).toMatch(/Attempt 1 +failed after 120 ms, HTTP 500/)
    expect(await rig.json(['run', 'get', run.id])).toEqual(run)
  })

  it('cancels', async () => {
    const run = rig.server.store.addRun()
    const result = await rig.run(['run', 'cancel', run.id])
    expect(result.err).toContain(`Canceled the run ${run.id} of report.`)
  })

  it('refuses what is no id without asking the server', async () => {
    const result = await rig.run(['run', 'get', 'last'])
    expect(result.err).toContain('"last" is not the id of a run')
    expect(rig.server.seen).toEqual([])
  })
})

describe('what a target answered', () => {
  const odd = 'safe\u202egpj.exe\u2066 \u200f\u061c'
  const shownAs = 'safe\\u{202e}gpj.exe\\u{2066} \\u{200f}\\u{61c}'
  const message = `the target answered ${odd}`
  const oddAttempt = attempt({ outcome: 'failed', error: { code: 'http_status', message }, response: odd })

  it('turns no text around, and stays what it is for programs', async () => {
    const run = rig.server.store.addRun({ state: 'failed', attemptList: [oddAttempt], ...ended })
    for (const verb of ['logs', 'wait']) {
      const { out, err } = await rig.run(['run', verb, run.id])
      expect(out + err).not.toMatch(/\p{Bidi_Control}/u)
      expect(out + err).toContain(shownAs)
    }
    const json = await rig.run(['run', 'logs', run.id, '-o', 'json'])
    expect(json.out).not.toMatch(/\p{Bidi_Control}/u)
    expect(JSON.parse(json.out)).toMatchObject([{ response: odd, error: { message } }])
  })
})
