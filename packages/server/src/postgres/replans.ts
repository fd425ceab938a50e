/**
 * The batches of replans on Postgres. A batch is one transaction:
 *
 *   1. take an open replan that nobody else works on; its row stays locked until commit, so each batch of a
 *      replan begins where the one before it ended, on whatever node, and a crash leaves no trace
 *   2. read the next schedules after its cursor
 *   3. lock their timers, then the schedules, in the order of their ids and without waiting; the page is cut
 *      at the first one that somebody else holds, so that the cursor never passes what was not looked at.
 *      Where that is the first of the page, another transaction waits for it alone, with nothing else locked
 *   4. decide, write, move the cursor
 *
 * At the end of a pass that left schedules, because they were about to fire, there is another one, a while
 * later. A zone needs no list of those: they still name the release that their next time was computed with.
 */
import type { PlannedTime } from '../domain/fire-policy.ts'
import { createCalendarShelf } from '../engine/calendar-shelf.ts'
import { type CalendarShelf, mostTouched } from '../ports/calendars.ts'
import type {
  BatchOptions,
  BatchOutcome,
  DecideBatch,
  IdleOutcome,
  ReplanDecision,
  ReplanItem,
  ReplanStore,
} from '../ports/replans.ts'
import { readDefinitions } from './catalog/calendar-store.ts'
import { replanRecord } from './catalog/replan-catalog.ts'
import { only } from './catalog/values.ts'
import type { Database, Transaction } from './database.ts'
import { toPlans } from './firing.ts'
import { schedulePlans } from './statements/firing.ts'
import { limitLockWait } from './statements/maintenance.ts'
import * as statements from './statements/replanning.ts'
import type { ReplanRow } from './statements/replans.ts'
import { createZoneRecords } from './zone-records.ts'

const engine = { role: 'belfry_engine' } as const
const firstId = '00000000-0000-0000-0000-000000000000'

export function createPostgresReplans(
  db: Database,
  shelf: CalendarShelf = createCalendarShelf(),
): ReplanStore {
  async function attempt(options: BatchOptions, decide: DecideBatch, alone: boolean) {
    let takenId: string | undefined
    const asked = { ...options, alone, shelf, taken: (id: string) => void (takenId = id) }
    try {
      return await db.transaction(engine, (tx) => batch(tx, asked, decide))
    } catch (error) {
      // the others need not wait for what is wrong with this one
      if (takenId !== undefined)
        await db.run(engine, statements.putOffReplan, [takenId, options.againMs]).catch(() => undefined)
      throw error
    }
  }
  return {
    ...createZoneRecords(db),
    async batch(options, decide) {
      const outcome = (await attempt(options, decide, false)) ?? (await attempt(options, decide, true))
      return outcome ?? { idle: true, waitMs: 0 }
    },
  }
}

interface Asked extends BatchOptions {
  /** One schedule at most, waited for. */
  readonly alone: boolean
  readonly shelf: CalendarShelf
  /** Told which replan the batch is of. */
  readonly taken: (id: string) => void
}

interface Work {
  readonly taken: ReplanRow & { readonly cursor: string | null; readonly left_over: number }
  readonly began: boolean
  /** Of the first batch. */
  readonly total: number | null
  readonly nowMs: number
}

/** Undefined: the first schedule of the page is held by somebody; nothing was done. */
async function batch(
  tx: Transaction,
  asked: Asked,
  decide: DecideBatch,
): Promise<BatchOutcome | IdleOutcome | undefined> {
  const [taken] = await tx.query(statements.takeReplan, [asked.dataVersion])
  if (taken === undefined) {
    const { wait_ms: waitMs } = only(await tx.query(statements.nextReplan, [asked.dataVersion]))
    return { idle: true, waitMs }
  }
  asked.taken(taken.id)
  const { now_ms: nowMs } = only(await tx.query(statements.replanNow, []))
  const began = taken.started_ms === null
  const work = { taken, began, nowMs, total: began ? await countWork(tx, taken) : null }
  if (taken.superseded) return end(tx, work, 'superseded')
  const page = await nextPage(tx, taken, asked.alone ? 1 : asked.limit)
  if (page.length > 0) return lookThrough(tx, work, page, asked, decide)
  if (taken.left_over === 0) return end(tx, work, 'done')
  const again = { cursor: null, looked: 0, moved: [], ended: 0, failed: 0, error: null, leftOver: 0 }
  return advance(tx, work, again, asked.againMs)
}

async function countWork(
  tx: Transaction,
  { kind, subject, to_version: to }: ReplanRow,
): Promise<number | null> {
  return kind === 'zone' ? only(await tx.query(statements.countStale, [subject, to])).count : null
}

interface PageEntry {
  readonly id: string
  /** Where to go on after this one. */
  readonly cursor: string
}

/** The cursor of a zone is `release/id`, that of a calendar the id. */
async function nextPage(tx: Transaction, taken: Work['taken'], limit: number): Promise<PageEntry[]> {
  const { kind, subject, tenant_id: tenantId, cursor } = taken
  if (kind === 'calendar') {
    const rows = await tx.query(statements.pageOfCalendar, [
      tenantId ?? '',
      subject,
      cursor ?? firstId,
      limit,
    ])
    return rows.map(({ id }) => ({ id, cursor: id }))
  }
  const [version = '', id = firstId] = cursor?.split('/') ?? []
  const rows = await tx.query(statements.pageOfZone, [subject, taken.to_version, version, id, limit])
  return rows.map((row) => ({ id: row.id, cursor: `${row.zone_data_version}/${row.id}` }))
}

async function lookThrough(
  tx: Transaction,
  work: Work,
  page: readonly PageEntry[],
  asked: Asked,
  decide: DecideBatch,
): Promise<BatchOutcome | undefined> {
  const { looked, locked } = await lockPage(tx, page, asked.alone)
  const last = looked.at(-1)
  if (last === undefined) return undefined
  const items = await readItems(tx, locked, asked.shelf)
  const isZone = work.taken.kind === 'zone'
  const idsWithout = isZone ? await lockTimerless(tx, looked, locked) : []
  const decisions = await decide({ items, nowMs: work.nowMs, onRecord: (times) => readOnRecord(tx, times) })
  const found = [...decisions].map(([id, decision]) => ({ id, ...decision }))
  const stays = isZone ? 'same' : staysOfCalendar(work)
  await write(tx, asked.dataVersion, stays, found, idsWithout)
  const leftOver = isZone ? found.filter(({ kind }) => kind === 'due').length : 0
  const failures = found.filter((each) => each.kind === 'failed')
  const [failure] = failures
  const step = {
    cursor: last.cursor,
    looked: looked.length - leftOver,
    moved: found.flatMap((each) =>
      each.kind === 'moved' ? [{ scheduleId: each.id, dueAtMs: each.next.dueAtMs }] : [],
    ),
    ended: found.filter(({ kind }) => kind === 'ended').length,
    failed: failures.length,
    error: failure === undefined ? null : `schedule ${failure.id}: ${failure.error}`,
    leftOver: work.taken.left_over + leftOver,
  }
  return advance(tx, work, step, 0)
}

interface Locked {
  readonly scheduledForMs: number
  readonly dueAtMs: number
  readonly sinceMs: number
}

/** Locks the page, or its beginning up to what somebody else holds. */
async function lockPage(
  tx: Transaction,
  page: readonly PageEntry[],
  alone: boolean,
): Promise<{ looked: readonly PageEntry[]; locked: ReadonlyMap<string, Locked> }> {
  const ids = page.map(({ id }) => id)
  if (alone) await tx.query(limitLockWait, [])
  const [lockTimers, lockSchedules] = alone
    ? ([statements.lockTimersWaiting, statements.lockSchedulesWaiting] as const)
    : ([statements.lockFreeTimers, statements.lockFreeSchedules] as const)
  const timers = await tx.query(lockTimers, [ids])
  const schedules = await tx.query(lockSchedules, [timers.map(({ id }) => id)])
  const since = new Map(schedules.map((row) => [row.id, row.since_ms]))
  const locked = new Map<string, Locked>()
  for (const { id, scheduled_ms: scheduledForMs, due_ms: dueAtMs } of timers) {
    const sinceMs = since.get(id)
    if (sinceMs !== undefined) locked.set(id, { scheduledForMs, dueAtMs, sinceMs })
  }
  const there = new Set((await tx.query(statements.timersThere, [ids])).map(({ id }) => id))
  const held = ids.findIndex((id) => there.has(id) && !locked.has(id))
  if (held < 0) return { looked: page, locked }
  for (const id of ids.slice(held)) locked.delete(id)
  return { looked: page.slice(0, held), locked }
}

/**
 * An active schedule without a timer has nothing to move, and must not be come back to for ever. One that
 * somebody holds is left as it is, and one that was paused or deleted since the page was read needs nothing:
 * what is stale when the pass is over is found again.
 */
async function lockTimerless(
  tx: Transaction,
  looked: readonly PageEntry[],
  locked: ReadonlyMap<string, Locked>,
): Promise<readonly string[]> {
  const ids = looked.flatMap(({ id }) => (locked.has(id) ? [] : [id]))
  return ids.length === 0 ? [] : (await tx.query(statements.lockFreeTimerless, [ids])).map(({ id }) => id)
}

/** Read after the locks, so that it is what was locked. */
async function readItems(
  tx: Transaction,
  locked: ReadonlyMap<string, Locked>,
  shelf: CalendarShelf,
): Promise<ReplanItem[]> {
  const rows = await tx.query(schedulePlans, [[...locked.keys()]])
  const plans = await toPlans(rows, shelf, readDefinitions(tx.query))
  return plans.flatMap((plan) => {
    const found = locked.get(plan.scheduleId)
    if (found === undefined) return []
    const { sinceMs, ...timer } = found
    return [{ plan, timer, sinceMs }]
  })
}

async function readOnRecord(tx: Transaction, asked: ReadonlyMap<string, number>): Promise<Set<string>> {
  const rows = await tx.query(statements.onRecord, [[...asked.keys()], [...asked.values()]])
  return new Set(rows.map(({ id }) => id))
}

type Found = ReplanDecision & { readonly id: string }

interface Written {
  readonly id: string
  readonly kind: 'same' | 'touched' | 'moved' | 'ended'
  readonly next: PlannedTime | null
}

/** Of few users of a calendar the versions were counted together with its change. */
function staysOfCalendar({ taken }: Work): 'touched' | undefined {
  return (taken.total ?? 0) > mostTouched ? 'touched' : undefined
}

/**
 * What stays is written where the release that it was computed with tells what is left to do (`same`), or
 * where fires may still be decided by what it was computed with (`touched`).
 */
async function write(
  tx: Transaction,
  dataVersion: string,
  stays: 'same' | 'touched' | undefined,
  found: readonly Found[],
  idsWithout: readonly string[],
): Promise<void> {
  const same = (id: string): Written => ({ id, kind: 'same', next: null })
  const rows = found.flatMap((each): Written[] => {
    const { id } = each
    if (each.kind === 'moved') return [{ id, kind: 'moved', next: each.next }]
    if (each.kind === 'ended') return [{ id, kind: 'ended', next: null }]
    if (stays === 'touched') return [{ id, kind: 'touched', next: null }]
    return stays === 'same' && each.kind !== 'due' ? [same(id)] : []
  })
  const all = [...rows, ...idsWithout.map(same)]
  if (all.length === 0) return
  await tx.query(statements.writeReplanned, [
    dataVersion,
    all.map(({ id }) => id),
    all.map(({ kind }) => kind),
    all.map(({ next }) => next?.scheduledForMs ?? null),
    all.map(({ next }) => next?.dueAtMs ?? null),
  ])
}

interface Step extends Pick<BatchOutcome, 'looked' | 'moved' | 'ended' | 'failed'> {
  readonly cursor: string | null
  readonly error: string | null
  readonly leftOver: number
}

async function advance(tx: Transaction, work: Work, step: Step, waitMs: number): Promise<BatchOutcome> {
  const { taken, total, began, nowMs } = work
  const { cursor, looked, moved, ended, failed, error, leftOver } = step
  const movedCount = moved.length + ended
  const noted = [taken.id, cursor, total, looked, movedCount, failed, error, leftOver, waitMs] as const
  const replan = replanRecord(only(await tx.query(statements.advanceReplan, noted)))
  return { idle: false, replan, began, looked, moved, ended, failed, nowMs }
}

async function end(tx: Transaction, work: Work, state: 'done' | 'superseded'): Promise<BatchOutcome> {
  const { taken, total, began, nowMs } = work
  const replan = replanRecord(only(await tx.query(statements.endReplan, [taken.id, state, total])))
  return { idle: false, replan, began, looked: 0, moved: [], ended: 0, failed: 0, nowMs }
}
