/**
 * Time that a test sets: moves the clock of a throw-away Belfry on from one due instant to the next, so that
 * everything that is planned up to the wanted time happens in order, each at its own time.
 *
 *   1 the next due instant, at most the wanted time          4 wait until nothing is due any more
 *   2 `belfry.now()` is set to it, and leases are taken along 5 wait until what began has ended (if wanted)
 *   3 the scheduler is told to look                           6 again from 1; at last to the wanted time
 *
 * In between time stands still: nothing becomes due by itself, no lease runs out. Functions and connections
 * are as real as ever, and so are their timeouts.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { BelfryError } from '@belfry/contract'
import { shardCount } from '../domain/shard.ts'
import type { DatabaseClock } from '../engine/database-clock.ts'
import type { Hints } from '../ports/hints.ts'
import type { SettableNow } from '../postgres/settable-now.ts'

/** By the real clock: what a step may take. */
const stepLimitMs = 30_000
const lookMs = 5
/** How often the scheduler is reminded, where it does not act at once. */
const remindMs = 250
const mostSteps = 100_000

export interface SettableTime {
  /** For the engine, which otherwise estimates it. */
  readonly databaseClock: DatabaseClock
  /** Epoch ms. */
  nowMs(): number
  /**
   * Moves on to a time, with everything that is due until then. `settle`: also waits at each instant until
   * the runs that this process executes have ended. Throws `invalid_request` for a time before the present,
   * and `wait_timeout` where something does not come to its end within 30 s.
   */
  set(toMs: number, settle: boolean): Promise<void>
}

/** What this process executes, to know when it has come to rest. */
export interface Executed {
  readonly routes: readonly string[]
  readonly queues: readonly string[]
}

export function createSettableTime(now: SettableNow, startMs: number) {
  let nowMs = startMs
  let moving: Promise<unknown> = Promise.resolve()
  const databaseClock: DatabaseClock = {
    nowMs: () => nowMs,
    observe: () => undefined,
    skewMs: () => 0,
    skewErrorMs: () => 0,
  }

  async function moveTo(hints: Pick<Hints, 'publish'>, toMs: number): Promise<void> {
    await now.move(toMs)
    nowMs = toMs
    remind(hints)
  }

  async function advance(
    { hints, executed }: { hints: Pick<Hints, 'publish'>; executed: Executed },
    toMs: number,
    settle: boolean,
  ): Promise<void> {
    if (!Number.isFinite(toMs) || toMs < nowMs) {
      const at = new Date(nowMs).toISOString()
      const message = `The clock stands at ${at} and cannot be set back; give a later time.`
      throw new BelfryError('invalid_request', message)
    }
    for (let step = 0; step < mostSteps; step++) {
      await until('everything that is due has been fired', hints, async () => {
        const dueMs = await now.nextDueMs()
        return dueMs === null || dueMs > nowMs
      })
      if (settle)
        await until('the runs that have begun have ended', hints, async () => {
          return (await now.busy(executed.routes, executed.queues)) === 0
        })
      const dueMs = await now.nextDueMs()
      if (dueMs !== null && dueMs <= nowMs) continue
      if (nowMs >= toMs) return
      await moveTo(hints, Math.min(toMs, dueMs ?? toMs))
    }
    throw new BelfryError(
      'wait_timeout',
      `${mostSteps} instants are due until then; set the clock in smaller steps.`,
    )
  }

  return {
    databaseClock,
    /** The part that needs a process around it. */
    within: (parts: { hints: Pick<Hints, 'publish'>; executed: Executed }): SettableTime => ({
      databaseClock,
      nowMs: () => nowMs,
      set(toMs, settle) {
        const moved = moving.then(() => advance(parts, toMs, settle))
        moving = moved.catch(() => undefined)
        return moved
      },
    }),
  }
}

function remind(hints: Pick<Hints, 'publish'>): void {
  for (let shard = 0; shard < shardCount; shard++) hints.publish({ topic: 'timers', key: String(shard) })
}

async function until(
  what: string,
  hints: Pick<Hints, 'publish'>,
  holds: () => Promise<boolean>,
): Promise<void> {
  const deadlineMs = performance.now() + stepLimitMs
  let remindAtMs = performance.now() + remindMs
  while (!(await holds())) {
    const realMs = performance.now()
    if (realMs > deadlineMs)
      throw new BelfryError('wait_timeout', `${stepLimitMs / 1_000} s went by before ${what}.`)
    if (realMs > remindAtMs) {
      remindAtMs = realMs + remindMs
      remind(hints)
    }
    await pause(lookMs)
  }
}
