/**
 * Lets runs go that depend on other runs (`dependsOn`), or ends them where their rule can no longer hold.
 *
 *   round: take events ─► mark and look at what the named runs wait for ─► judge (domain/dependencies.ts) ─►
 *          due at once, or ended with a reason: one transaction (ports/dependencies.ts) ─► hints
 *
 * A run of which all has ended before it was asked for goes the same way. Any number of resolvers may run. A
 * round begins with a hint, and by itself: each second while there was something to do lately, each ten
 * seconds otherwise. Every minute a page of all that wait is looked at, whatever was told.
 *
 * A run that cannot be looked at, let go or ended holds up no other: a round that fails by what is in it is
 * done again in halves (isolate-fault.ts), and the one at fault is put off for a minute.
 */
import { judgeDependencies } from '../domain/dependencies.ts'
import type { Clock } from '../ports/clock.ts'
import type { Dependencies, DependencyRound, JudgedRun, WaitingRun } from '../ports/dependencies.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { Random } from '../ports/random.ts'
import type { Service } from '../ports/service.ts'
import { isFaultOfRows, isolateFault } from './isolate-fault.ts'
import { createLoop } from './loop.ts'
import { hintOfShard } from './timer-hints.ts'
import { settledWithin } from './within.ts'

const eventsARound = 1_000
const runsMended = 1_000
const busyPollMs = 1_000
const idlePollMs = 10_000
/** Until what moved at the moment of the look stands still again. */
const unsurePollMs = 50
const busyForMs = 30_000
const mendMs = 60_000
const faultyRestMs = 60_000
const stopWithinMs = 2_000

export interface DependencyResolverOptions {
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
  readonly dependencies: Dependencies
  readonly hints: Hints
}

export interface DependencyResolver extends Service {
  /** Rounds until nothing is to be done; answers how many runs were let go or ended. */
  readonly runOnce: () => Promise<number>
}

export function createDependencyResolver(options: DependencyResolverOptions): DependencyResolver {
  const { clock, random, hints, dependencies } = options
  let busyUntilMs = 0
  let mendAtMs = clock.monotonicMs() + mendMs
  let unsubscribe: (() => void) | undefined
  const loop = createLoop({
    name: 'dependency_resolver',
    clock,
    random,
    events: options.events,
    async round(signal) {
      if (clock.monotonicMs() >= mendAtMs) {
        await dependencies.mend(runsMended)
        mendAtMs = clock.monotonicMs() + mendMs
      }
      const { settled, unsure } = await workOff(options, signal)
      if (settled + unsure > 0) busyUntilMs = clock.monotonicMs() + busyForMs
      if (unsure > 0) return unsurePollMs
      const pollMs = clock.monotonicMs() < busyUntilMs ? busyPollMs : idlePollMs
      return pollMs * (0.9 + random.next() / 5)
    },
  })
  return {
    name: loop.name,
    runOnce: async () => (await workOff(options)).settled,
    async start() {
      unsubscribe = hints.subscribe(({ topic }) => {
        if (topic === 'dependencies') loop.wake()
      })
      await loop.start()
    },
    async stop() {
      unsubscribe?.()
      // a round that is under way is safe to leave
      await settledWithin(clock, stopWithinMs, loop.stop())
    },
  }
}

async function workOff(
  options: DependencyResolverOptions,
  signal?: AbortSignal,
): Promise<{ readonly settled: number; readonly unsure: number }> {
  let settled = 0
  for (;;) {
    const { looked, unsure, settled: its } = await roundOf(options)
    settled += its
    // what is looked at again at once would be found as it is
    if (looked === 0 || unsure > 0 || signal?.aborted === true) return { settled, unsure }
  }
}

interface Done {
  readonly looked: number
  readonly unsure: number
  readonly settled: number
}

async function roundOf(options: DependencyResolverOptions): Promise<Done> {
  const { dependencies } = options
  let runIds: readonly string[] = []
  try {
    const round = await dependencies.round(eventsARound, judgeAll, (ids) => (runIds = ids))
    tell(options, round)
    return { looked: round.looked, unsure: round.unsure, settled: settledBy(round) }
  } catch (error) {
    if (runIds.length === 0 || !isFaultOfRows(error)) throw error
  }
  let unsure = 0
  let settled = 0
  await isolateFault(
    runIds,
    async (ids) => {
      const round = await dependencies.roundOf(ids, judgeAll)
      tell(options, round)
      unsure += round.unsure
      settled += settledBy(round)
    },
    (runId, cause) => putOff(options, runId, cause),
  )
  return { looked: runIds.length, unsure, settled }
}

const settledBy = ({ released, ended }: DependencyRound): number => released + ended.length

async function putOff(options: DependencyResolverOptions, runId: string, cause: unknown): Promise<void> {
  await options.dependencies.putOff(runId, faultyRestMs)
  const why = cause instanceof Error ? cause.message : String(cause)
  const words =
    `The run ${runId}, which depends on others, cannot be let go or ended: ${why}; cancel it, or look at ` +
    'the cause. Others go on.'
  const error = new Error(words, { cause })
  options.events.emit('role_failed', { role: 'dependency_resolver', error, retryInMs: faultyRestMs })
}

function judgeAll(waiting: readonly WaitingRun[]): JudgedRun[] {
  return waiting.flatMap(({ id, rule, states }) => {
    const verdict = judgeDependencies(rule, states)
    return verdict.kind === 'wait' ? [] : [{ id, verdict }]
  })
}

/** Makes known what was committed: events, and hints to schedulers and to those who wait for the ends. */
function tell({ events, hints }: DependencyResolverOptions, { ended, shards }: DependencyRound): void {
  for (const { reason, ...run } of ended) {
    const end = { attempt: 0, outcome: 'skipped', durationMs: 0, errorCode: reason } as const
    events.emit('attempt_ended', { ...run, ...end })
  }
  for (const shard of shards) hints.publish(hintOfShard(shard))
}
