// What a process tells of itself: its clock against that of the database, parts that are away, lateness, and
// the pace of queues; and that it goes on telling whatever fails.
import type { EngineEvents } from '@belfry/contract'
import { expect, test } from 'vitest'
import { createDatabaseClock } from '../../packages/server/src/engine/database-clock.ts'
import { createNodeFacts } from '../../packages/server/src/engine/node-facts.ts'
import { createNodeReporter } from '../../packages/server/src/engine/node-reporter.ts'
import { createRunPace } from '../../packages/server/src/engine/run-pace.ts'
import type { NodeReport, PaceEntry } from '../../packages/server/src/ports/nodes.ts'
import { recordEvents } from '../support/running.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const startMs = Date.parse('2031-01-01T00:00:00Z')
const random = { next: () => 0.5 }

/** `aheadMs`: the wall clock of the process, against the database. */
function rigOf(aheadMs = 0) {
  const clock = createVirtualClock(startMs)
  const shared = { jumpMs: aheadMs, failing: false, lost: false }
  // the wall clock may jump; what is measured goes on
  const jumping = { ...clock, nowMs: () => clock.nowMs() + shared.jumpMs }
  const databaseClock = createDatabaseClock(jumping)
  const events = recordEvents()
  const facts = createNodeFacts(jumping)
  const pace = createRunPace()
  const reports: NodeReport[] = []
  const noted: PaceEntry[] = []
  let left = 0
  const reporter = createNodeReporter({
    clock: jumping,
    random,
    events,
    databaseClock,
    facts,
    pace,
    node: { id: 'n', host: 'alpha', version: '1', roles: ['worker'] },
    worker: () => ({ queues: ['*'], slots: 4, busy: 1 }),
    records: {
      async report(node) {
        if (shared.failing) throw new Error('away')
        reports.push(node)
        return { nowMs: clock.nowMs() }
      },
      async notePace(entries) {
        if (shared.lost) throw new Error('away')
        noted.push(...entries)
      },
      async leave() {
        left += 1
      },
      forget: () => Promise.resolve(),
    },
  })
  return { clock, shared, events, facts, pace, reports, noted, reporter, left: () => left }
}

const ended = (more: Partial<EngineEvents['attempt_ended']> = {}): EngineEvents['attempt_ended'] => ({
  runId: 'r',
  tenantId: 't',
  jobId: 'j',
  queue: 'q',
  attempt: 1,
  outcome: 'succeeded',
  state: 'succeeded',
  durationMs: 100,
  errorCode: null,
  ...more,
})

test('a process tells of its skew only when it has looked, and takes itself off the list', async () => {
  const rig = rigOf(3_600_000)
  await rig.reporter.start()
  await rig.clock.advance(1)
  expect(rig.reports.map(({ skew }) => skew)).toEqual([null, { ms: 3_600_000, errorMs: 0 }])
  await rig.clock.advance(20_000)
  expect(rig.reports.length).toBeGreaterThanOrEqual(5)
  await rig.reporter.stop()
  expect(rig.left()).toBe(1)
})

test('a clock that is off is told of at once, then once a minute, and when it is right again', async () => {
  const rig = rigOf(0)
  await rig.reporter.start()
  await rig.clock.advance(20_000)
  expect(rig.events.of('clock_skew')).toEqual([])
  rig.shared.jumpMs = -2_500
  await rig.clock.advance(6_000)
  expect(rig.events.of('clock_skew')).toEqual([{ skewMs: -2_500 }])
  await rig.clock.advance(130_000)
  expect(rig.events.of('clock_skew')).toHaveLength(3)
  rig.shared.jumpMs = 40
  await rig.clock.advance(130_000)
  expect(rig.events.of('clock_skew').slice(3)).toEqual([{ skewMs: 40 }])
  await rig.reporter.stop()
})

test('parts that are away are told of until they are back, with the time since when', async () => {
  const rig = rigOf(500_000)
  await rig.reporter.start()
  await rig.clock.advance(10_000)
  const changed = (state: 'away' | 'up', fault: string | null) =>
    rig.facts.events.emit('part_changed', { part: 'redis', state, fault })
  changed('away', 'refused')
  await rig.clock.advance(4_000)
  changed('away', 'timed out')
  await rig.clock.advance(4_000)
  expect(rig.reports.at(-1)?.parts).toEqual([
    { part: 'redis', state: 'away', fault: 'timed out', since_ms: startMs + 10_000 },
  ])
  changed('up', null)
  await rig.clock.advance(6_000)
  expect(rig.reports.at(-1)?.parts).toEqual([])
  await rig.reporter.stop()
})

test('the largest lateness of a fire counts for a minute', async () => {
  const rig = rigOf()
  const fired = (lateMs: number, outcome: 'ran' | 'missed' = 'ran'): void =>
    rig.facts.events.emit('occurrences_fired', {
      durationMs: 1,
      outcomes: [{ scheduleId: 's', scheduledFor: 0, outcome, reason: null, count: 1, lateMs }],
    })
  expect(rig.facts.lagMs()).toBeNull()
  fired(700)
  fired(30)
  fired(90_000, 'missed')
  expect(rig.facts.lagMs()).toBe(700)
  await rig.clock.advance(30_000)
  fired(50)
  await rig.clock.advance(31_000)
  expect(rig.facts.lagMs()).toBe(50)
  await rig.clock.advance(30_000)
  expect(rig.facts.lagMs()).toBeNull()
})

test('the pace is told by tenant, queue and kind, and nothing of it is lost when telling fails', async () => {
  const rig = rigOf()
  const events = recordEvents()
  const [servers, functions] = [rig.pace.counting('servers', events), rig.pace.counting('functions', events)]
  servers.emit('attempt_ended', ended())
  rig.shared.lost = true
  await rig.reporter.start()
  await rig.clock.advance(3_000)
  servers.emit('attempt_ended', ended({ durationMs: 300 }))
  functions.emit('attempt_ended', ended({ durationMs: 7 }))
  rig.shared.lost = false
  await rig.clock.advance(12_000)
  expect(rig.noted).toEqual([
    { tenantId: 't', queue: 'q', kind: 'servers', attempts: 2, busyMs: 400 },
    { tenantId: 't', queue: 'q', kind: 'functions', attempts: 1, busyMs: 7 },
  ])
  expect(events.of('attempt_ended')).toHaveLength(3)
  await rig.reporter.stop()
})

test('the pace of more queues than can be kept is left out, and costs no memory', () => {
  const pace = createRunPace()
  const events = pace.counting('servers', recordEvents())
  for (let queue = 0; queue < 3_000; queue += 1) events.emit('attempt_ended', ended({ queue: `q-${queue}` }))
  expect(pace.take()).toHaveLength(1_000)
  expect(pace.take()).toEqual([])
})

test('a database that does not answer is told again', async () => {
  const rig = rigOf()
  rig.shared.failing = true
  await rig.reporter.start()
  await rig.clock.advance(30_000)
  expect(rig.reports).toEqual([])
  rig.shared.failing = false
  await rig.clock.advance(6_000)
  expect(rig.reports.length).toBeGreaterThan(0)
  await rig.reporter.stop()
})
