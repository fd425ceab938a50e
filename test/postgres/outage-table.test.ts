// Every combination of outage, catch-up, overlap, a run that is alive, and a pause, on real Postgres: no
// scheduler while planned times pass, pauses and resumes by the API's own functions meanwhile, then a
// scheduler. What is expected comes from an account of the rules in this file that knows nothing of planFire
// and SQL.
import { overlapPolicies } from '@belfry/contract'
import type { OverlapPolicy } from '@belfry/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { compileStored } from '../../packages/server/src/domain/stored-schedule.ts'
import { columnOf } from '../../packages/server/src/domain/stored-spec.ts'
import { planPause, planResume } from '../../packages/server/src/engine/catalog/schedule-actions.ts'
import { settleDue } from '../../packages/server/src/engine/catalog/settle.ts'
import { createFairTags } from '../../packages/server/src/engine/fair-tags.ts'
import { createPostgresQueueProgress } from '../../packages/server/src/postgres/queue-progress.ts'
import { createOverlapRig, type OverlapRig } from '../support/overlap-rig.ts'
import { realClock } from '../support/real-clock.ts'
import { ids, newId, until, zones } from '../support/scheduling.ts'

const minuteMs = 60_000
const periodMs = 10 * minuteMs
/** When the scheduler is back. */
const endMs = Date.UTC(2026, 0, 10)
const mostRows = 50

type Combination = {
  /** Planned times that nobody fired: this many and one. */
  readonly periods: number
  /** How long ago the last of them was. */
  readonly restMs: number
  readonly catchUp: {
    readonly policy: 'latest' | 'all' | 'none'
    readonly windowMs: number
    readonly maxRuns: number
  }
  readonly overlap: OverlapPolicy
  readonly before: 'nothing' | 'running'
  /** Paused, in the middle of the outage or before it, and resumed within it or not. */
  readonly pause: 'never' | 'in the middle' | 'from before' | 'until now'
}

const wideMs = 365 * 86_400_000
const catchUps: readonly Combination['catchUp'][] = [
  { policy: 'latest', windowMs: wideMs, maxRuns: 100 },
  { policy: 'latest', windowMs: minuteMs, maxRuns: 100 },
  { policy: 'all', windowMs: wideMs, maxRuns: 1_000 },
  { policy: 'all', windowMs: wideMs, maxRuns: 3 },
  { policy: 'all', windowMs: 3 * periodMs, maxRuns: 100 },
  { policy: 'none', windowMs: wideMs, maxRuns: 100 },
]

function everyCombination(): Combination[] {
  const combinations: Combination[] = []
  for (const periods of [0, 1, 7, 70])
    for (const restMs of [1_000, 5 * minuteMs])
      for (const catchUp of catchUps)
        for (const overlap of overlapPolicies)
          for (const before of ['nothing', 'running'] as const)
            for (const pause of ['never', 'in the middle', 'from before', 'until now'] as const)
              combinations.push({ periods, restMs, catchUp, overlap, before, pause })
  return combinations
}

/** When things happen to a schedule: its first planned time in the outage, its pause and its resume. */
function instantsOf({ periods, restMs, pause }: Combination) {
  const firstMs = endMs - restMs - periods * periodMs
  const middle = firstMs + Math.floor(periods / 2) * periodMs + 1_000
  const later = Math.min(endMs, middle + 2 * periodMs)
  switch (pause) {
    case 'never':
      return { firstMs, pauseMs: null, resumeMs: null }
    case 'in the middle':
      return { firstMs, pauseMs: middle, resumeMs: later }
    case 'from before':
      return { firstMs, pauseMs: firstMs - periodMs / 2, resumeMs: middle }
    case 'until now':
      return { firstMs, pauseMs: middle, resumeMs: null }
  }
}

// ---- the rules, said once more ----

type Told = { readonly timeMs: number; what: string; count: number }

/** What is on record in the end: each planned time, and what became of the run before. */
function expectedOf(combination: Combination): string[] {
  const { catchUp, overlap, before } = combination
  const { firstMs, pauseMs, resumeMs } = instantsOf(combination)
  const told: Told[] = []
  /** Runs that are alive, oldest first; the last one is the end of the chain. */
  let alive: Told[] = []
  if (before === 'running') {
    const run = { timeMs: firstMs - periodMs, what: 'ran running', count: 1 }
    told.push(run)
    alive.push(run)
  }
  const fire = (fromMs: number, atMs: number): number => {
    const { due, nextMs } = dueTimes(fromMs, atMs)
    const run = caughtUp(due, catchUp, atMs)
    run.forEach((time, n) => {
      if (run.length - n > together[overlap]) time.what = 'skipped overlap'
      else alive = started(time, overlap, alive)
    })
    told.push(...summed(due, ({ what }) => what.startsWith('missed')))
    return nextMs
  }

  let goesOnMs: number | null = firstMs
  if (pauseMs !== null) {
    const pausedMs = fire(firstMs, pauseMs)
    goesOnMs = null
    if (resumeMs !== null) {
      const { due, nextMs } = dueTimes(pausedMs, resumeMs)
      for (const time of due) time.what = 'skipped paused'
      told.push(...summed(due, () => true))
      goesOnMs = nextMs
    }
  }
  if (goesOnMs !== null) fire(goesOnMs, endMs)
  return told.map(({ timeMs, what, count }) => `${(timeMs - firstMs) / periodMs} ${what} x${count}`)
}

function dueTimes(fromMs: number, atMs: number): { due: Told[]; nextMs: number } {
  const due: Told[] = []
  let nextMs = fromMs
  for (; nextMs <= atMs; nextMs += periodMs) due.push({ timeMs: nextMs, what: '', count: 1 })
  return { due, nextMs }
}

/** Those that may run, by catch-up alone; the others are missed. */
function caughtUp(due: readonly Told[], catchUp: Combination['catchUp'], atMs: number): Told[] {
  const counted = { latest: 1, all: catchUp.maxRuns, none: Infinity }[catchUp.policy]
  const patienceMs = catchUp.policy === 'none' ? minuteMs : catchUp.windowMs
  return due.filter((time, n) => {
    if (due.length - n <= counted && atMs - time.timeMs <= patienceMs) return true
    const beaten = catchUp.policy === 'latest' && time !== due.at(-1)
    if (catchUp.policy === 'none') time.what = 'missed catch_up_none'
    else time.what = beaten ? 'missed catch_up_latest' : 'missed catch_up_window'
    return false
  })
}

/** How many that are due at once may run. */
const together: Readonly<Record<OverlapPolicy, number>> = {
  skip: 1,
  cancel_other: 1,
  terminate_other: 1,
  buffer_one: 2,
  buffer_all: Infinity,
  allow: Infinity,
}

/** Says what becomes of one that may run; answers what is alive then. */
function started(time: Told, overlap: OverlapPolicy, alive: readonly Told[]): Told[] {
  const free = alive.length === 0
  switch (overlap) {
    case 'allow':
      time.what = 'ran ready'
      return [time]
    case 'skip':
    case 'buffer_one':
    case 'buffer_all': {
      const places = { skip: 1, buffer_one: 2, buffer_all: Infinity }[overlap]
      if (alive.length >= places) time.what = 'skipped overlap'
      else time.what = free ? 'ran ready' : 'ran waits'
      return alive.length >= places ? [...alive] : [...alive, time]
    }
    case 'cancel_other':
    case 'terminate_other': {
      // what runs is asked and goes on for now; what does not run yet ends
      const stay = alive.filter(({ what }) => overlap === 'cancel_other' && what === 'ran running')
      for (const run of alive) if (!stay.includes(run)) run.what = 'ran canceled/overlap'
      time.what = stay.length > 0 ? 'ran waits' : 'ran ready'
      return [...stay, time]
    }
  }
}

/** The newest of a kind have a row each; those before them share one, at the first. */
function summed(times: readonly Told[], quiet: (time: Told) => boolean): Told[] {
  const old = times.filter(quiet).slice(0, -mostRows)
  if (old[0] !== undefined) old[0].count = old.length
  return times.filter((time) => !old.includes(time) || time === old[0])
}

// ---- what happens ----

let rig: OverlapRig
beforeAll(async () => {
  rig = await createOverlapRig(endMs)
})
afterAll(() => rig.drop())

async function addSchedule(combination: Combination): Promise<string> {
  const { catchUp, overlap, before } = combination
  const { firstMs } = instantsOf(combination)
  const spec = { every: '10m', everyMs: periodMs, anchorMs: firstMs - periodMs }
  const id = await rig.fixture.addSchedule({ spec, scheduledForMs: firstMs, catchUp, overlap })
  if (before === 'nothing') return id
  const runId = newId()
  await rig.fixture.database.sql(
    `WITH timer AS (UPDATE belfry.timer SET last_run_id = $1 WHERE schedule_id = $2),
          fired AS (
            INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, run_id, due_at)
            VALUES ($2, $3, $4, 'ran', $1, $3))
     INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
       available_at, timeout_ms, lease_epoch, attempt, session_id, claimed_at, deadline)
     VALUES ($1, $4, $5, 1, 'default', 'http', 1, 0, $3, 60000, 1, 1, $6, $3, 'infinity')`,
    [runId, id, new Date(firstMs - periodMs), rig.fixture.tenantId, rig.fixture.jobId, rig.sessionId],
  )
  return id
}

/** As the API does it: hold, settle, decide, write. */
async function change(id: string, what: 'pause' | 'resume', tags: ReturnType<typeof createFairTags>) {
  await rig.asTenant(async (tx) => {
    const current = await tx.schedules.lock(id)
    if (current === undefined) throw new Error('no such schedule')
    const nowMs = await tx.nowMs()
    const times = () => {
      const stored = { ...current, spec: columnOf(current.spec), scheduleId: current.id }
      const compiled = compileStored(stored, zones)
      if (!compiled.ok) throw new Error(compiled.error)
      return compiled.value
    }
    const { tenantId } = rig.fixture
    const { schedule } = await settleDue(tx, current, { ids, tags, tenantId, nowMs, times })
    if (schedule === undefined) throw new Error('it is gone')
    const next =
      what === 'pause' ? planPause(schedule, 'a pause', nowMs) : planResume(schedule, { zones, nowMs })
    await tx.schedules.change(id, next)
  })
}

async function recorded(): Promise<ReadonlyMap<string, string[]>> {
  const rows = await rig.fixture.database.sql<{ id: string; at: Date; what: string; count: string }>(
    `SELECT o.schedule_id AS id, o.scheduled_for AS at, o.missed_count AS count,
            concat(o.outcome, ' ', coalesce(
              o.reason,
              (SELECT CASE WHEN session_id IS NULL THEN 'ready' ELSE 'running' END
               FROM belfry.ready WHERE run_id = o.run_id),
              (SELECT 'waits' FROM belfry.delayed WHERE run_id = o.run_id AND after_run_id IS NOT NULL),
              (SELECT concat_ws('/', run_state, reason) FROM belfry.attempt
               WHERE run_id = o.run_id AND run_state IS NOT NULL))) AS what
     FROM belfry.occurrence o ORDER BY o.schedule_id, o.scheduled_for`,
  )
  const found = new Map<string, string[]>()
  for (const { id, at, what, count } of rows) {
    const lines = found.get(id) ?? []
    lines.push(`${at.getTime()} ${what} x${count}`)
    found.set(id, lines)
  }
  return found
}

test('every combination comes to what the rules say', { timeout: 240_000 }, async () => {
  const tags = createFairTags({
    clock: realClock,
    progress: createPostgresQueueProgress(rig.fixture.database.open()),
  })
  const schedules: { readonly id: string; readonly combination: Combination }[] = []
  for (const combination of everyCombination()) {
    schedules.push({ id: await addSchedule(combination), combination })
  }
  const events = schedules.flatMap(({ id, combination }) => {
    const { pauseMs, resumeMs } = instantsOf(combination)
    return [
      ...(pauseMs === null ? [] : [{ id, atMs: pauseMs, what: 'pause' as const }]),
      ...(resumeMs === null ? [] : [{ id, atMs: resumeMs, what: 'resume' as const }]),
    ]
  })
  for (const { id, atMs, what } of events.toSorted((a, b) => a.atMs - b.atMs)) {
    await rig.fixture.database.setNow(new Date(atMs))
    await change(id, what, tags)
  }
  await rig.fixture.database.setNow(new Date(endMs))
  await rig.startNode()
  const overdue = 'SELECT 1 FROM belfry.timer WHERE due_at <= belfry.now() LIMIT 1'
  await until('all to be fired', async () => (await rig.fixture.database.sql(overdue)).length === 0, 60_000)

  const found = await recorded()
  for (const { id, combination } of schedules) {
    const { firstMs } = instantsOf(combination)
    const lines = (found.get(id) ?? []).map((line) => {
      const [at, ...rest] = line.split(' ')
      return [(Number(at) - firstMs) / periodMs, ...rest].join(' ')
    })
    expect(lines, JSON.stringify(combination)).toEqual(expectedOf(combination))
  }
  const counts = `${schedules.length} combinations, ${events.length} pauses and resumes`
  process.stdout.write(`outage table: ${counts}\n`)
  expect(schedules).toHaveLength(4 * 2 * 6 * 6 * 2 * 4)
})
