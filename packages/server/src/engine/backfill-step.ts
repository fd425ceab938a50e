/**
 * One step of a backfill, in one transaction (ports/backfilling.ts):
 *
 *   1. takes in which of its runs have ended;
 *   2. while it goes on and has free places: looks at the next planned times, a bounded number, and decides
 *      which of them run (domain/backfill.ts);
 *   3. starts those and moves the cursor; it is completed when no time is left and no run is alive.
 *
 * A paused or canceled one only takes in ends. One whose schedule was deleted is canceled.
 */
import type { BackfillState } from '@belfry/contract'
import type { BackfillMove, JudgedTime } from '../domain/backfill.ts'
import { intervalStart } from '../domain/data-interval.ts'
import type { FireTimes } from '../domain/fire-policy.ts'
import { countedAs, decideTime, factsOf, takeTimes, upcomingTimes } from '../domain/backfill.ts'
import type {
  BackfillAdvance,
  BackfillStart,
  BackfillTx,
  Backfilling,
  DueBackfill,
  LockedBackfill,
} from '../ports/backfilling.ts'
import type { TimeRecord } from '../ports/backfills.ts'
import type { SchedulePlan } from '../ports/firing.ts'
import type { Ids } from '../ports/ids.ts'
import type { BackfillPlans } from './backfill-plans.ts'
import type { FairTags } from './fair-tags.ts'

const dayMs = 86_400_000
const priority = -100
/**
 * Backfills of a tenant stand in the fair order as one more tenant with a tenth of its share: they use up
 * none of the places that its other runs get, and however many there are, those come first.
 */
const shareOfTenant = 1 / 10

export interface StepParts {
  readonly backfilling: Backfilling
  readonly plans: BackfillPlans
  readonly ids: Ids
  readonly tags: Pick<FairTags, 'ready' | 'next'>
  /** What is planned for days before is not put on record: the pruner would delete it. */
  readonly retentionDays: number
}

export interface StepTaken {
  readonly tenantId: string
  /** Empty: it starts workflow runs. */
  readonly queue: string
  readonly started: number
  readonly skipped: number
  /** Runs whose end was taken in. */
  readonly ended: number
  readonly state: BackfillState
  /** Whether this step ended it. */
  readonly isOver: boolean
  /** All planned times that were looked at were passed over, and there are more. */
  readonly foundNothing: boolean
}

/** `stale`: the schedule is another than was read; to be tried again at once. `gone`: nothing is there. */
export type StepOutcome = StepTaken | 'stale' | 'gone'

/**
 * `look`: planned times that are looked at, or as many as there are free places. Throws as the database
 * does, or what is wrong with the timing.
 */
export async function takeStep(parts: StepParts, due: DueBackfill, look: number): Promise<StepOutcome> {
  const { backfilling, plans, tags } = parts
  const plan = await plans.load(due.scheduleId)
  // not within the transaction: it may ask the database itself
  if (plan?.target === 'job') await tags.ready([plan.queue])
  const outcome = await backfilling.within((tx) => stepWithin(parts, tx, due, plan, look))
  if (outcome === 'stale') plans.drop(due.scheduleId)
  return outcome
}

async function stepWithin(
  parts: StepParts,
  tx: BackfillTx,
  due: DueBackfill,
  plan: SchedulePlan | undefined,
  look: number,
): Promise<StepOutcome> {
  const backfill = await tx.lock(due)
  if (backfill === undefined) return 'gone'
  const goesOn = backfill.state === 'pending' || backfill.state === 'running'
  if (!goesOn) return advance(tx, backfill, standStill(backfill), backfill.state, [])
  const { schedule } = backfill
  if (schedule === null) return advance(tx, backfill, standStill(backfill), 'canceled', [])
  if (plan === undefined || plan.version !== schedule.version || plan.queue !== schedule.lane) return 'stale'
  const alive = backfill.runs.filter(({ endedAs }) => endedAs === null).length
  const free = backfill.concurrency - alive
  if (backfill.nextAtMs === null || free <= 0) {
    return advance(tx, backfill, standStill(backfill), stateAfter(alive, 0, backfill.nextAtMs), [])
  }
  const times = parts.plans.timesOf(plan, backfill.timing)
  const { timesMs, behindMs } = upcomingTimes(times, backfill, Math.max(look, free))
  const records = await recordsOf(tx, backfill, timesMs)
  const judged = timesMs.map((scheduledForMs): JudgedTime => {
    const facts = factsOf(scheduledForMs, records.get(scheduledForMs), times, schedule.timerAtMs)
    return { scheduledForMs, verdict: decideTime(facts, backfill.reprocess) }
  })
  const move = takeTimes(judged, free, behindMs)
  const state = stateAfter(alive, move.startMs.length, move.nextAtMs)
  return advance(tx, backfill, move, state, startsOf(parts, backfill, plan, move, records, times))
}

const standStill = ({ nextAtMs }: LockedBackfill): BackfillMove => ({ startMs: [], skipped: 0, nextAtMs })

const stateAfter = (alive: number, started: number, nextAtMs: number | null): BackfillState =>
  nextAtMs === null && alive + started === 0 ? 'completed' : 'running'

async function recordsOf(
  tx: BackfillTx,
  backfill: LockedBackfill,
  timesMs: readonly number[],
): Promise<ReadonlyMap<number, TimeRecord>> {
  if (timesMs.length === 0) return new Map()
  const records = await tx.timeRecords(backfill, timesMs)
  return new Map(records.map((record) => [record.scheduledForMs, record]))
}

function startsOf(
  { ids, tags, retentionDays }: StepParts,
  { nowMs }: LockedBackfill,
  { target, queue, tenantId, tenantWeight }: SchedulePlan,
  { startMs }: BackfillMove,
  records: ReadonlyMap<number, TimeRecord>,
  times: FireTimes,
): BackfillStart[] {
  const keptFromMs = (Math.floor(nowMs / dayMs) - retentionDays) * dayMs
  const request = { queue, tenantId: `${tenantId}/backfill`, weight: tenantWeight * shareOfTenant, priority }
  return startMs.map((scheduledForMs) => {
    const recorded = records.get(scheduledForMs)?.recorded === true
    return {
      scheduledForMs,
      runId: ids.uuidv7(Math.floor(nowMs)),
      tag: target === 'job' ? tags.next(request) : 0,
      occurrence: recorded ? 'known' : scheduledForMs < keptFromMs ? 'none' : 'insert',
      intervalStartMs: target === 'job' ? null : intervalStart(times, scheduledForMs),
    }
  })
}

async function advance(
  tx: BackfillTx,
  backfill: LockedBackfill,
  move: BackfillMove,
  state: BackfillState,
  starts: readonly BackfillStart[],
): Promise<StepTaken> {
  const ended = backfill.runs.flatMap(({ runId, endedAs }) => (endedAs === null ? [] : [{ runId, endedAs }]))
  const counts = { succeeded: 0, failed: 0, canceled: 0 }
  for (const { endedAs } of ended) counts[countedAs(endedAs)]++
  const isOver = state !== backfill.state && (state === 'completed' || state === 'canceled')
  const wanted: BackfillAdvance = {
    id: backfill.id,
    target: backfill.schedule?.target ?? 'job',
    expectedNextAtMs: backfill.nextAtMs,
    nextAtMs: move.nextAtMs,
    starts,
    skipped: move.skipped,
    ended,
    ...counts,
    alive: backfill.runs.length - ended.length,
    state,
    reason: state === 'canceled' && isOver ? 'The schedule was deleted.' : null,
  }
  const started = (await tx.advance(wanted)).length
  const { schedule, tenantId } = backfill
  return {
    tenantId,
    queue: schedule?.queue ?? '',
    started,
    skipped: move.skipped + starts.length - started,
    ended: ended.length,
    state,
    isOver,
    foundNothing: starts.length === 0 && move.skipped > 0 && move.nextAtMs !== null,
  }
}
