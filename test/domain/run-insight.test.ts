// The timeline of a run and the explanation of why it is where it is, from facts alone.
import { retryPolicySchema, runReasons } from '@belfry/contract'
import { describe, expect, test } from 'vitest'
import {
  explainRun,
  type RunFacts,
  type Standing,
} from '../../packages/server/src/domain/run-insight/explain-run.ts'
import type { TriedAttempt } from '../../packages/server/src/domain/run-insight/facts.ts'
import { timelineOf } from '../../packages/server/src/domain/run-insight/timeline.ts'

const t0 = Date.parse('2026-12-01T00:00:00Z')
const second = 1_000

const retry = retryPolicySchema.parse({ baseMs: second, capMs: 60 * second })
const base: RunFacts = {
  state: 'pending',
  reason: null,
  delivery: 'at_least_once',
  retry,
  createdAtMs: t0,
  dueAtMs: t0,
  finishedAtMs: null,
  nextAttemptAtMs: t0,
  cancelRequested: false,
  tried: [],
  olderAttempts: 0,
  present: null,
  heldSinceMs: null,
  nowMs: t0 + 3 * second,
  queue: 'default',
  afterRunId: null,
  startByMs: null,
  hold: null,
  gathering: null,
  dependsOn: [],
  rule: null,
  standing: null,
}
const facts = (more: Partial<RunFacts>): RunFacts => ({ ...base, ...more })
const tried = (
  number: number,
  startS: number,
  endS: number,
  more: Partial<TriedAttempt> = {},
): TriedAttempt => ({
  number,
  outcome: 'failed',
  startedAtMs: t0 + startS * second,
  endedAtMs: t0 + endS * second,
  retryAtMs: null,
  errorCode: 'http_500',
  errorMessage: 'the target answered 500',
  ...more,
})
const standing = (more: Partial<Standing> = {}): Standing => ({
  functionName: null,
  ahead: 0,
  aheadCapped: false,
  servers: { workers: 2, slots: 20, held: 5 },
  servingElsewhere: 0,
  session: null,
  ...more,
})
const inShort = (of: RunFacts) =>
  timelineOf(of).map(({ kind, reason, attempt, atMs, untilMs, over }) =>
    [
      kind,
      reason ?? attempt ?? '',
      (atMs - t0) / second,
      untilMs === null ? '' : (untilMs - t0) / second,
      over ? '' : 'now',
    ].join(' '),
  )
const words = (of: RunFacts) => timelineOf(of).map((step) => step.words)

describe('a timeline', () => {
  test('of a run that waits in its queue', () => {
    expect(inShort(base)).toEqual(['created  0  ', 'delay queue 0  now'])
    expect(words(base)).toEqual([
      'Created, due at once.',
      'Waits for its turn or a free worker, 3 seconds so far.',
    ])
  })

  test('of a run that waits for its time', () => {
    const later = facts({ dueAtMs: t0 + 10 * second, nextAttemptAtMs: t0 + 10 * second })
    expect(inShort(later)).toEqual(['created  0  ', 'delay due_time 0 10 now'])
    expect(words(later)[1]).toBe('Waits for its time, 10 seconds in all, 7 seconds left.')
  })

  test('of a run with retries names the reason of each delay', () => {
    const run = facts({
      state: 'succeeded',
      nextAttemptAtMs: null,
      dueAtMs: t0 + 5 * second,
      finishedAtMs: t0 + 200 * second,
      nowMs: t0 + 300 * second,
      tried: [
        tried(1, 6, 7, { retryAtMs: t0 + 7.5 * second }),
        tried(2, 7.5, 8, { outcome: 'lost', retryAtMs: t0 + 9 * second, errorCode: 'worker_lost' }),
        tried(3, 20, 21, { retryAtMs: t0 + 141 * second, errorCode: 'http_503' }),
        tried(4, 141, 200, { outcome: 'succeeded', errorCode: null, errorMessage: null }),
      ],
    })
    expect(inShort(run)).toEqual([
      'created  0  ',
      'delay due_time 0 5 ',
      'due  5  ',
      'delay queue 5 6 ',
      'attempt 1 6 7 ',
      'delay retry_backoff 7 7.5 ',
      'attempt 2 7.5 8 ',
      'delay crash_backoff 8 9 ',
      'delay queue 9 20 ',
      'attempt 3 20 21 ',
      'delay retry_after 21 141 ',
      'attempt 4 141 200 ',
      'ended  200  ',
    ])
    expect(words(run)).toContain('Attempt 1 failed after 1 second: the target answered 500 (http_500)')
    expect(words(run)).toContain('Waited 2 minutes for the next attempt, as long as the handler asked for.')
  })

  test('of a running one ends in its attempt', () => {
    const run = facts({
      state: 'running',
      nextAttemptAtMs: null,
      present: { number: 1, startedAtMs: t0 + 2 * second },
    })
    expect(inShort(run)).toEqual(['created  0  ', 'delay queue 0 2 ', 'attempt 1 2  now'])
  })

  test('of one that ended before it began', () => {
    const canceled = facts({
      state: 'canceled',
      reason: 'canceled_by_request',
      dueAtMs: t0 + 10 * second,
      nextAttemptAtMs: null,
      finishedAtMs: t0 + 4 * second,
      nowMs: t0 + 20 * second,
      tried: [tried(0, 4, 4, { outcome: 'canceled', errorCode: 'canceled' })],
    })
    expect(inShort(canceled)).toEqual(['created  0  ', 'delay due_time 0 4 ', 'ended  4  '])
    expect(words(canceled).at(-1)).toBe('Ended: canceled. Somebody asked for its cancel.')
  })

  test('says what holds it now: a limit, or another run', () => {
    expect(inShort(facts({ heldSinceMs: t0 + second })).at(-1)).toBe('delay limit 1  now')
    expect(inShort(facts({ nextAttemptAtMs: null, afterRunId: 'x' })).at(-1)).toBe('delay run 0  now')
  })

  test('does not guess before the attempts that it is shown', () => {
    const run = facts({
      state: 'running',
      nextAttemptAtMs: null,
      olderAttempts: 40,
      tried: [tried(41, 100, 101, { retryAtMs: t0 + 102 * second })],
      present: { number: 42, startedAtMs: t0 + 102 * second },
      nowMs: t0 + 103 * second,
    })
    expect(inShort(run)).toEqual([
      'created  0  ',
      'attempt 41 100 101 ',
      'delay retry_backoff 101 102 ',
      'attempt 42 102  now',
    ])
  })

  test('of one that was made late says by how much', () => {
    expect(words(facts({ createdAtMs: t0 + 90 * second, nowMs: t0 + 90 * second }))[0]).toBe(
      'Created, 1 minute and 30 seconds after it was due.',
    )
  })
})

describe('an explanation is the first check that holds:', () => {
  const running = { state: 'running', nextAttemptAtMs: null } as const
  const session = {
    id: 's',
    claimedAtMs: t0,
    deadlineMs: t0 + 60 * second,
    alive: { host: 'box', heartbeatAtMs: t0, expiresAtMs: t0 + 30 * second },
  }

  test('it waits for its time', () => {
    const told = explainRun(facts({ dueAtMs: t0 + 10 * second, nextAttemptAtMs: t0 + 10 * second }))
    expect(told).toMatchObject({
      verdict: 'waiting_for_time',
      message: 'It waits for its time, in 7 seconds.',
      clearsAtMs: t0 + 10 * second,
    })
  })

  const dueAtMs = t0 + 10 * second
  const open = { items: 3, openedAtMs: t0 + second, dueAtMs, maxItems: null, maxWaitMs: null }
  test.each([
    [
      { ...open, kind: 'collect', maxItems: 1_000 } as const,
      'It collects the inputs of requests, 3 requests so far. It starts in 7 seconds, or once it has 1,000.',
    ],
    [
      { ...open, kind: 'debounce', items: 1, maxWaitMs: 60 * second } as const,
      'It waits until requests cease (debounce), 1 request so far, of which the newest counts. It starts ' +
        'in 7 seconds; another request puts that off, to at most 58 seconds from now.',
    ],
    [
      { ...open, kind: 'collect', items: null, openedAtMs: null } as const,
      'It has all the inputs that it takes, and starts in 7 seconds.',
    ],
  ])('it gathers the inputs of requests: %o', (gathering, message) => {
    const told = explainRun(facts({ gathering, dueAtMs, nextAttemptAtMs: dueAtMs }))
    expect(told).toMatchObject({ verdict: 'gathering', message, clearsAtMs: dueAtMs, fix: null })
    expect(told.sinceMs).toBe(gathering.openedAtMs ?? t0)
  })

  test('it has gathered, and no scheduler lets it in', () => {
    const gathering = { ...open, kind: 'collect', dueAtMs: t0 } as const
    const told = explainRun(facts({ gathering, nextAttemptAtMs: t0, nowMs: t0 + 60 * second }))
    expect(told.verdict).toBe('waiting_for_time')
  })

  test('it waits to be tried again', () => {
    const told = explainRun(
      facts({ nextAttemptAtMs: t0 + 50 * second, tried: [tried(1, 0, 1, { retryAtMs: t0 + 50 * second })] }),
    )
    expect(told.verdict).toBe('retry_delay')
    expect(told.message).toBe(
      'Its next attempt starts in 47 seconds: the handler asked for this pause. The last one: the target ' +
        'answered 500 (http_500).',
    )
  })

  test('its time has come, and no scheduler lets it in', () => {
    const told = explainRun(facts({ nextAttemptAtMs: t0, nowMs: t0 + 60 * second }))
    expect(told).toMatchObject({ verdict: 'waiting_for_time', sinceMs: t0 })
    expect(told.fix).toContain('role scheduler')
  })

  test('another run must end first, before its own time is asked for', () => {
    const told = explainRun(facts({ nextAttemptAtMs: null, afterRunId: 'other' }))
    expect(told).toMatchObject({ verdict: 'waiting_for_run', runIds: ['other'] })
  })

  test('a limit holds it', () => {
    const hold = { sinceMs: t0, message: 'It is held.', clearsAtMs: null, fix: 'Raise it.', runIds: ['a'] }
    expect(explainRun(facts({ hold, standing: standing() }))).toMatchObject({
      verdict: 'held',
      message: 'It is held.',
      fix: 'Raise it.',
      runIds: ['a'],
    })
  })

  test.each([
    [null, 0, 'no server with the role worker serves the queue "default".'],
    ['mail', 0, 'no worker with the function "mail" serves the queue "default".'],
    ['mail', 2, '2 workers of the function serve other queues.'],
  ])('nobody is there for the function %s', (functionName, servingElsewhere, end) => {
    const servers = { workers: 0, slots: 0, held: 0 }
    const told = explainRun(facts({ standing: standing({ functionName, servers, servingElsewhere }) }))
    expect(told.verdict).toBe('no_worker')
    expect(told.message).toContain(end)
    expect(told.fix).not.toBeNull()
  })

  test('its turn has not come', () => {
    expect(explainRun(facts({ standing: standing() })).message).toBe(
      'It is the next in the fair order of the queue "default"; 2 workers with 5 of 20 slots busy.',
    )
    const servers = { workers: 1, slots: 1, held: 1 }
    const told = explainRun(
      facts({
        standing: standing({ ahead: 1_000, aheadCapped: true, servers }),
        startByMs: t0 + 63 * second,
      }),
    )
    expect(told).toMatchObject({
      verdict: 'queued',
      place: { ahead: 1_000, capped: true },
      fix: 'Add workers or slots, or raise its priority.',
    })
    expect(told.message).toContain('At least 1,000 runs before it')
    expect(told.message).toContain('It expires in 1 minute.')
  })

  test('it runs', () => {
    expect(explainRun(facts({ ...running, standing: standing({ session }) }))).toMatchObject({
      verdict: 'running',
      message:
        'It has been running on box for 3 seconds, and is taken from there in 57 seconds at the latest.',
      workerId: 's',
      clearsAtMs: t0 + 60 * second,
    })
  })

  test('it runs on a worker that has gone silent', () => {
    const told = explainRun(facts({ ...running, nowMs: t0 + 25 * second, standing: standing({ session }) }))
    expect(told.verdict).toBe('running')
    expect(told.message).toContain('silent for 25 seconds; its lease ends in 5 seconds.')
  })

  test.each([
    ['at_least_once', 'another worker starts it again'],
    ['at_most_once', 'not started a second time'],
  ] as const)('its worker is lost, %s', (delivery, then) => {
    const gone = standing({ session: { ...session, alive: null } })
    const late = facts({ ...running, delivery, nowMs: t0 + 31 * second, standing: standing({ session }) })
    for (const told of [explainRun(late), explainRun({ ...late, standing: gone })]) {
      expect(told.verdict).toBe('worker_lost')
      expect(told.message).toContain(then)
    }
  })

  test('its cancel was asked for', () => {
    const told = explainRun(facts({ ...running, cancelRequested: true, standing: standing({ session }) }))
    expect(told.verdict).toBe('cancel_requested')
  })

  test('it has just moved on', () => {
    const present = { number: 1, startedAtMs: t0 }
    expect(explainRun(facts({ ...running, present }))).toMatchObject({ verdict: 'running' })
  })

  test.each(runReasons)('it has ended: %s is told in words', (reason) => {
    const told = explainRun(facts({ state: 'failed', reason, finishedAtMs: t0, nextAttemptAtMs: null }))
    expect(told.verdict).toBe('ended')
    expect(told.message).toMatch(/^Ended: failed\. [A-Z].+\.$/)
  })

  test('it has ended well', () => {
    const told = explainRun(facts({ state: 'succeeded', finishedAtMs: t0, nextAttemptAtMs: null }))
    expect(told).toMatchObject({ verdict: 'ended', message: 'Ended: succeeded.', fix: null })
  })
})
