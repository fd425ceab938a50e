// What the firer makes of the database's answers: what is tried again, when, and with which place in the fair
// order.
import { BelfryError, overlapPolicies } from '@belfry/contract'
import { beforeEach, describe, expect, test } from 'vitest'
import { createTagClock } from '../../packages/server/src/domain/fair-queue.ts'
import { createDatabaseClock } from '../../packages/server/src/engine/database-clock.ts'
import type { HeapEntry, ScheduleTimer } from '../../packages/server/src/engine/fire-preparer.ts'
import { isPlain } from '../../packages/server/src/engine/fire-tidings.ts'
import { createFirer, type FireOutcome } from '../../packages/server/src/engine/firer.ts'
import { createSetAside } from '../../packages/server/src/engine/set-aside.ts'
import type {
  AssumedTime,
  Firing,
  FireResult,
  ReleaseResult,
  TimerFire,
} from '../../packages/server/src/ports/firing.ts'
import type { DueTimer } from '../../packages/server/src/ports/timer-index.ts'
import { createVirtualClock, type VirtualClock } from '../support/virtual-clock.ts'

const t0 = Date.UTC(2026, 0, 1)
const minuteMs = 60_000
const terms = new Map([[0, 1]])

type Answer = Partial<FireResult> & { readonly tripMs?: number }

let clock: VirtualClock
let tags: ReturnType<typeof createTagClock>
let sent: { fires: readonly TimerFire[]; assumed: AssumedTime }[]
let released: { runId: string; tag: number }[]
let releases: Partial<ReleaseResult>[]
let forgotten: string[]
let decidedAtMs: number[]
/** What the database answers to a fire; all moved where a test says nothing. */
let answers: (Answer | Error)[]

beforeEach(() => {
  clock = createVirtualClock(t0)
  tags = createTagClock()
  tags.observeClaimed('default', 0)
  ;[sent, released, releases, forgotten, decidedAtMs, answers] = [[], [], [], [], [], []]
})

const scheduleTimer = (id: string, dueAtMs: number): ScheduleTimer => {
  return { kind: 'schedule', id, tenantId: 't', shard: 0, dueAtMs, scheduledForMs: dueAtMs, gen: 1 }
}
const plan = {
  scheduleId: 's',
  tenantId: 't',
  gen: 1,
  version: 4,
  spec: {},
  zone: 'UTC',
  startAtMs: null,
  endAtMs: null,
  jitterMs: 0,
  flexibleWindowMs: 0,
  runLimit: null,
  sleepUntilMs: null,
  sleepReason: null,
  catchUp: { policy: 'latest', windowMs: 0, maxRuns: 1 },
  overlap: 'skip',
  queue: 'default',
  priority: 0,
  target: 'job',
  tenantWeight: 2,
} as const

const firing: Firing = {
  plans: () => Promise.resolve([]),
  async fire(_nodeId, _terms, fires, assumed) {
    sent.push({ fires, assumed })
    const answer = answers.shift() ?? {}
    if (answer instanceof Error) throw answer
    const { tripMs = 0, ...rest } = answer
    await clock.advance(tripMs)
    const movedScheduleIds = fires.map(({ scheduleId }) => scheduleId)
    const nothing = { fired: [], displaced: [], changedScheduleIds: [], endedScheduleIds: [] }
    const none = { ...nothing, toldDependents: false }
    const all = { ...none, movedScheduleIds, heldShards: [0] }
    return { ...all, nowMs: t0 + clock.monotonicMs(), ...rest }
  },
  release(runs) {
    released.push(...runs)
    const none = { releasedRunIds: [], releasedQueues: [], putOffRunIds: [], movedRuns: [] }
    return Promise.resolve({ ...none, putOffToMs: t0 + 20_000, nowMs: t0, ...releases.shift() })
  },
}

function createRig() {
  return createFirer({
    clock,
    databaseClock: createDatabaseClock(clock),
    events: { emit: () => {} },
    firing,
    hints: { publish: () => {} },
    ids: { uuidv7: (atMs) => `id-${atMs}` },
    nodeId: 'node',
    preparer: {
      load: () => Promise.resolve(),
      onTime: () => undefined,
      needsPlan: () => true,
      forget: ({ id }) => void forgotten.push(id),
      decide(_entry, timer, nowMs) {
        decidedAtMs.push(nowMs)
        const { scheduledForMs, dueAtMs } = timer
        const ran = { outcome: 'ran', reason: null, detail: null, missedCount: 1 } as const
        const next = { scheduledForMs: dueAtMs + minuteMs, dueAtMs: dueAtMs + minuteMs }
        const fire = { occurrences: [{ scheduledForMs, dueAtMs, ...ran }], next }
        return { plan: timer.id.startsWith('limited') ? { ...plan, runLimit: 9 } : plan, fire }
      },
    },
    setAside: createSetAside(clock),
    tags: { ...tags, ready: () => Promise.resolve() },
  })
}

const entriesOf = (...timers: readonly DueTimer[]): HeapEntry[] => timers.map((timer) => ({ timer }))
const idsOf = ({ again }: FireOutcome): string[] => again.map(({ timer }) => timer.id)
const tagsOf = (fires: readonly TimerFire[]): number[] =>
  fires.flatMap(({ occurrences }) => occurrences.map(({ tag }) => tag))

describe('a refusal that passes', () => {
  test('too early: that timer waits, by as much as it was early, and no other', async () => {
    const [a, b] = [scheduleTimer('a', t0), scheduleTimer('b', t0 + 40)]
    answers.push({ movedScheduleIds: ['a'], nowMs: t0 })
    const outcome = await createRig().fire(entriesOf(a, b), terms, 100)
    expect(outcome.moved.map(({ id }) => id)).toEqual(['a'])
    expect(outcome.again).toEqual([{ timer: b, tag: 1, notBeforeMs: t0 + 40 }])
  })

  test('decided with a wrong time: all again, with the time that was learned', async () => {
    const firer = createRig()
    const entries = entriesOf(scheduleTimer('a', t0), scheduleTimer('b', t0))
    const hourMs = 3_600_000
    answers.push({ movedScheduleIds: [], nowMs: t0 + hourMs })
    const outcome = await firer.fire(entries, terms, 100)
    expect(idsOf(outcome)).toEqual(['a', 'b'])
    expect(outcome.changedShards.size).toBe(0)
    await firer.fire(outcome.again, terms, 100)
    expect(sent.map(({ assumed }) => assumed.nowMs)).toEqual([t0, t0 + hourMs])
    expect(decidedAtMs).toEqual([t0, t0, t0 + hourMs, t0 + hourMs])
  })

  test('a database that is slow to begin is not taken for a wrong clock for ever', async () => {
    const firer = createRig()
    const entries = entriesOf(scheduleTimer('a', t0))
    answers.push({ movedScheduleIds: [], tripMs: 4_000 })
    expect(idsOf(await firer.fire(entries, terms, 100))).toEqual(['a'])
    answers.push({ tripMs: 4_000 })
    expect(idsOf(await firer.fire(entries, terms, 100))).toEqual([])
    expect(sent.map(({ assumed }) => assumed.toleranceMs)).toEqual([1_000, 8_000])
  })

  test('decided by settings that were changed: again, with the plan read anew', async () => {
    const entry: HeapEntry = {
      timer: scheduleTimer('a', t0),
      ready: { plan, fire: { occurrences: [], next: null } },
    }
    answers.push({ movedScheduleIds: [], changedScheduleIds: ['a'] })
    const outcome = await createRig().fire([entry], terms, 100)
    expect(outcome.again).toEqual([{ timer: entry.timer }])
    expect(forgotten).toEqual(['a'])
    expect(sent[0]?.fires[0]?.version).toBe(4)
  })

  test('anything else means that the timer was moved, and its shard is read again', async () => {
    answers.push({ movedScheduleIds: [] })
    const outcome = await createRig().fire(entriesOf(scheduleTimer('a', t0)), terms, 100)
    expect([idsOf(outcome), [...outcome.changedShards]]).toEqual([[], [0]])
  })
})

describe('schedules of which some need the dearer policies', () => {
  const mixed = ['a', 'limited-b', 'c', 'limited-d'].map((id) => scheduleTimer(id, t0))

  test('go in two statements, so that the others do not pay for them', async () => {
    const outcome = await createRig().fire(entriesOf(...mixed), terms, 100)
    expect(sent.map(({ fires }) => fires.map(({ scheduleId, plain }) => [scheduleId, plain]))).toEqual([
      [
        ['a', true],
        ['c', true],
      ],
      [
        ['limited-b', false],
        ['limited-d', false],
      ],
    ])
    expect(new Set(tagsOf(sent.flatMap(({ fires }) => fires))).size).toBe(4)
    expect(outcome.moved).toHaveLength(4)
    expect(outcome.again).toEqual([])
  })

  test('a fault of the database in the first leaves all of the second to be tried again', async () => {
    answers.push(new BelfryError('database_timeout', 'The database is slow.'))
    const outcome = await createRig().fire(entriesOf(...mixed), terms, 100)
    expect(sent).toHaveLength(1)
    expect(idsOf(outcome)).toEqual(['a', 'limited-b', 'c', 'limited-d'])
  })
})

describe('what the database decided', () => {
  test('a schedule that reached its limit of runs does not go on', async () => {
    answers.push({ endedScheduleIds: ['a'] })
    const outcome = await createRig().fire(
      entriesOf(scheduleTimer('a', t0), scheduleTimer('b', t0)),
      terms,
      9,
    )
    expect(outcome.moved.map(({ id }) => id)).toEqual(['b'])
    expect([idsOf(outcome), [...outcome.changedShards]]).toEqual([[], []])
  })

  test('a run that still waits for another is looked at again when it is due again', async () => {
    const place = { kind: 'run', tenantId: 't', shard: 0, dueAtMs: t0, queue: 'default' } as const
    const timer: DueTimer = { ...place, id: 'r', priority: 0, tenantWeight: 1 }
    releases.push({ putOffRunIds: ['r'], putOffToMs: t0 + 20_000 })
    const outcome = await createRig().fire(entriesOf(timer), terms, 9)
    expect(outcome.again).toEqual([{ timer: { ...timer, dueAtMs: t0 + 20_000 } }])
  })

  test('only schedules that skip or allow, and have no limit, are fired the cheap way', () => {
    const cheap = overlapPolicies.filter((overlap) => isPlain({ overlap, runLimit: null }))
    expect(cheap).toEqual(['skip', 'allow'])
    expect(isPlain({ overlap: 'skip', runLimit: 3 })).toBe(false)
  })
})

describe('places in the fair order', () => {
  test('a fire that is tried again keeps its place while the service has not come past it', async () => {
    const firer = createRig()
    const entries = entriesOf(scheduleTimer('a', t0))
    const down = Object.assign(new Error('out of order'), { code: '57P01' })
    const { toDatabaseError } = await import('../../packages/server/src/postgres/database-error.ts')
    for (let attempt = 0; attempt < 3; attempt++) {
      answers.push(toDatabaseError(down) as Error)
      expect((await firer.fire(entries, terms, 100)).failure).toBeDefined()
    }
    tags.observeClaimed('default', 10)
    await firer.fire(entries, terms, 100)
    expect(sent.map(({ fires }) => tagsOf(fires))).toEqual([[0.5], [0.5], [0.5], [10.5]])
  })

  test('released runs have the weight of their tenant', async () => {
    const run = (id: string): DueTimer => {
      const place = { kind: 'run', tenantId: 'heavy', shard: 0, dueAtMs: t0, queue: 'default' } as const
      return { ...place, id, priority: 0, tenantWeight: 10 }
    }
    await createRig().fire(entriesOf(run('r1'), run('r2')), terms, 100)
    expect(released.map(({ tag }) => tag)).toEqual([0.1, 0.2])
  })

  test('a batch ends at about so many occurrences', async () => {
    const timers = Array.from({ length: 9 }, (_, n) => scheduleTimer(`s${n}`, t0))
    const outcome = await createRig().fire(entriesOf(...timers), terms, 4)
    expect(outcome.moved).toHaveLength(4)
    expect(outcome.again).toHaveLength(5)
  })
})
