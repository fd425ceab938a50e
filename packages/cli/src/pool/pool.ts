/**
 * A worker pool on one host: as many worker processes as the server says that the queues need, within bounds.
 *
 *   look (every 2 s) ─► wanted ─► steady.ts ─► start what is missing, drain what is too much
 *
 * 1. The figure is that of GET /v1/queues/{queue}/stats, summed over the queues of the pool. While it cannot
 *    be had, the pool stays as it is; workers that die are replaced all the same.
 * 2. A worker that drains takes nothing more and is let alone until it has ended; it does not count.
 * 3. Workers that were started as something else (another version, other settings) are replaced: first the
 *    new ones start, then those go.
 * 4. One that dies soon after its start is started again later and later.
 */
import type { WorkerDemand } from '@belfry/contract'
import type { PoolWorker, PoolWorkers } from './pool-workers.ts'
import { type Look, steady } from './steady.ts'

/** A worker that is as old serves, or never will. */
const settledMs = 5_000
const earlyDeathMs = 10_000
const firstPauseMs = 500
const longestPauseMs = 30_000

export interface PoolGoal {
  readonly min: number
  readonly max: number
  readonly slots: number
  readonly scaleInAfterMs: number
}

/** What is told of the pool; `why` in words. */
export type PoolEvent =
  | { readonly event: 'taken_over'; readonly worker: number; readonly pid: number }
  | {
      readonly event: 'started' | 'draining'
      readonly worker: number
      readonly pid: number
      readonly why: string
    }
  | { readonly event: 'ended'; readonly worker: number; readonly pid: number; readonly asked: boolean }
  | { readonly event: 'no_figures'; readonly why: string }
  | { readonly event: 'figures_again' }

export interface PoolOptions {
  readonly goal: PoolGoal
  readonly workers: PoolWorkers
  readonly fingerprint: string
  /** What the queues of the pool need, one after the other. Throws where that cannot be had. */
  readonly demand: () => Promise<readonly WorkerDemand[]>
  readonly monotonicMs: () => number
  readonly tell: (event: PoolEvent) => void
}

export interface Pool {
  /** One look, and what follows from it. */
  readonly step: () => Promise<void>
  /** Tells every worker to end. */
  readonly drainAll: () => void
  /** Takes note of those that ended; answers how many are left. */
  readonly reap: () => number
}

export function createPool(options: PoolOptions): Pool {
  const { goal, workers, monotonicMs, tell } = options
  const current = (worker: PoolWorker): boolean => worker.fingerprint === options.fingerprint
  const serving = () => workers.all().filter((worker) => current(worker) && !worker.draining)
  const outdated = () => workers.all().filter((worker) => !current(worker) && !worker.draining)
  for (const { number, pid } of workers.all()) tell({ event: 'taken_over', worker: number, pid })
  const sight = createSight(options, serving().length + outdated().length)
  const restarts = createRestarts(monotonicMs)

  function reap(): number {
    for (const { worker, livedMs } of workers.ended()) {
      const { number, pid, draining } = worker
      tell({ event: 'ended', worker: number, pid, asked: draining })
      if (!draining) restarts.died(livedMs)
    }
    return workers.all().length
  }

  function grow(target: number, why: string): void {
    if (restarts.paused()) return
    // those that drain may take long, and have their memory until then
    const room = 2 * goal.max - workers.all().length
    for (let missing = Math.min(target - serving().length, room); missing > 0; missing -= 1) {
      const worker = workers.start()
      if (worker === undefined) return restarts.died(0)
      tell({ event: 'started', worker: worker.number, pid: worker.pid, why })
    }
  }

  function drain(some: readonly PoolWorker[], why: string): void {
    for (const { number, pid } of some) {
      workers.drain(number)
      tell({ event: 'draining', worker: number, pid, why })
    }
  }

  return {
    reap,
    async step() {
      reap()
      const { target, why } = await sight.look(() => serving().length)
      reap()
      grow(target, why)
      const up = serving().filter(({ sinceMs }) => monotonicMs() - sinceMs >= settledMs)
      if (up.length >= target) drain(outdated(), 'it was started as something else')
      drain(serving().slice(target), why)
    },
    drainAll: () => drain([...serving(), ...outdated()], 'the pool ends'),
  }
}

/** How many workers there should be. `found`: so many were there at the start. */
function createSight({ goal, demand, monotonicMs, tell }: PoolOptions, found: number) {
  // what was there keeps its place for as long as if it had been wanted until now
  let looks: readonly Look[] = [{ atMs: monotonicMs(), wanted: bounded(found, goal) }]
  let target = goal.min
  let why = `at least ${goal.min} are kept`
  let blind = false
  return {
    /** While nothing can be learnt: as many as there are, or were wanted last. */
    async look(serving: () => number): Promise<{ readonly target: number; readonly why: string }> {
      try {
        const all = await demand()
        const slots = all.reduce((sum, each) => sum + each.wantedSlots, 0)
        const next = { atMs: monotonicMs(), wanted: bounded(Math.ceil(slots / goal.slots), goal) }
        const settled = steady(looks, next, goal.scaleInAfterMs)
        looks = settled.looks
        target = settled.target
        why = all.map((each) => each.why).join(' ')
        if (blind) tell({ event: 'figures_again' })
        blind = false
      } catch (error) {
        const words = error instanceof Error ? error.message : String(error)
        if (!blind) tell({ event: 'no_figures', why: words })
        blind = true
        target = bounded(Math.max(target, serving()), goal)
      }
      return { target, why }
    },
  }
}

/** Pauses between starts of workers that die young. */
function createRestarts(monotonicMs: () => number) {
  let deaths = 0
  let pausedUntilMs = -Infinity
  return {
    paused: (): boolean => monotonicMs() < pausedUntilMs,
    died(livedMs: number): void {
      deaths = livedMs < earlyDeathMs ? deaths + 1 : 0
      if (deaths > 0) pausedUntilMs = monotonicMs() + Math.min(longestPauseMs, firstPauseMs * 2 ** deaths)
    },
  }
}

const bounded = (count: number, { min, max }: PoolGoal): number => Math.min(max, Math.max(min, count))
