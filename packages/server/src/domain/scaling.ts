/**
 * How many workers a queue should have, so that what waits starts within a given time. A pure rule of one
 * look, the same for everybody who scales by it: KEDA, an HPA, `belfry worker pool`.
 *
 *   slots = running + backlog × mean / (mean + target)
 *
 * 1. What runs needs its slots: as runs end, others come (Little's law), else the next look sees fewer.
 * 2. A further slot takes one waiting run at once, and one more each `mean`: within the target that is
 *    1 + target / mean. Long runs therefore get a slot each, of short ones many share one.
 * 3. Where anything waits that is at least one slot beyond what runs: so a wrong mean costs steps, and never
 *    leaves a backlog standing behind busy workers.
 *
 * Hysteresis is left to whoever scales; one look says what is wanted now.
 */

/** What an attempt is believed to take where nothing is known. */
const unknownMeanMs = 1_000
/** Shorter ones are bounded by what a slot costs besides. */
const leastMeanMs = 1

export interface Demand {
  /** Runs that may start now. */
  readonly backlog: number
  readonly running: number
  /** How long attempts took lately; null: none ended. */
  readonly meanMs: number | null
  /** For how long those that run now have been running, on average; null: none runs. */
  readonly runningForMs: number | null
}

export interface ScalingGoal {
  readonly targetStartDelayMs: number
  readonly slotsPerWorker: number
  readonly minWorkers: number
  readonly maxWorkers: number
}

export interface Wanted {
  readonly slots: number
  readonly workers: number
  /** The mean that was reckoned with. */
  readonly meanMs: number
}

/**
 * How long an attempt takes. Those that run now count too: they are the first sign that attempts take longer
 * than before, and the only one before any has ended.
 */
export function expectedMeanMs({ meanMs, runningForMs }: Demand): number {
  const known = Math.max(meanMs ?? 0, runningForMs ?? 0)
  return meanMs === null && runningForMs === null ? unknownMeanMs : Math.max(leastMeanMs, known)
}

export function wantedWorkers(demand: Demand, goal: ScalingGoal): Wanted {
  const { backlog, running } = demand
  const meanMs = expectedMeanMs(demand)
  const slots = running + Math.ceil((backlog * meanMs) / (meanMs + goal.targetStartDelayMs))
  const workers = Math.ceil(slots / goal.slotsPerWorker)
  return { slots, workers: Math.min(goal.maxWorkers, Math.max(goal.minWorkers, workers)), meanMs }
}

/** The same in words, for whoever wonders. */
export function scalingWords(demand: Demand, goal: ScalingGoal, wanted: Wanted): string {
  const { backlog, running } = demand
  if (backlog + running === 0) return bounded('Nothing waits or runs', wanted, goal)
  const mean = `${spanWords(wanted.meanMs)} each`
  const parts = [
    ...(running > 0 ? [`${running} running`] : []),
    ...(backlog > 0 ? [`${backlog} waiting of about ${mean}`] : []),
  ]
  const slots = wanted.slots === 1 ? 'takes 1 slot' : `take ${wanted.slots} slots`
  return bounded(`${parts.join(' and ')} ${slots}, ${goal.slotsPerWorker} a worker`, wanted, goal)
}

function bounded(words: string, { slots, workers }: Wanted, goal: ScalingGoal): string {
  const free = Math.ceil(slots / goal.slotsPerWorker)
  if (workers > free) return `${words}; at least ${goal.minWorkers} are kept.`
  return workers < free ? `${words}; at most ${goal.maxWorkers} are allowed.` : `${words}.`
}

const spanWords = (ms: number): string =>
  ms < 1_000 ? `${Math.round(ms)} ms` : `${Math.round(ms / 100) / 10} s`
