/**
 * Claims for workers outside this process: the engine's own intake (intake.ts), with the room that the worker
 * says it has in the place of slots.
 *
 * 1. Claim. Runs are claimed in steps, so that no answer grows far beyond `answerBytes`: the first step is
 *    small, until the inputs of this session are known to be.
 * 2. With nothing there, wait (supply-watcher.ts), and claim again.
 * 3. Who has gone meanwhile gets nothing: what was claimed for him is given back at once. Where an answer
 *    was lost on its way, the worker says with its next claims what it holds (`known`), and the rest is given
 *    back.
 */
import type { ClaimedFunctionRun, Delivery, JobDefinition, RunError, WorkerClaim } from '@belfry/contract'
import { attemptLimit } from '../../domain/run-limits.ts'
import { functionLane, functionRoute } from '../../domain/route.ts'
import { attemptTraceparent } from '../../domain/traceparent.ts'
import type { ClaimedRun, RunQueue } from '../../ports/run-queue.ts'
import type { HeldRun } from '../../ports/run-store.ts'
import type { SessionFacts, Wanted } from '../../ports/worker-store.ts'
import type { DefinitionCache } from '../definition-cache.ts'
import type { Identities } from '../identities.ts'
import { createIntake } from '../intake.ts'
import { createLowWaterMarks, type LowWaterMarks } from '../low-water-marks.ts'
import { createQueueShares, type QueueShares } from '../queue-shares.ts'
import type { RemoteEnds, UnusableRun } from './remote-ends.ts'
import { sessionLost } from './session-book.ts'
import type { SupplyWatcher } from './supply-watcher.ts'
import type { GateSettings } from './worker-gate.ts'

const answerBytes = 4 * 1024 * 1024
const firstStep = 50
/** Mean bytes of an input up to which a whole batch may be claimed at once. */
const smallBytes = 4 * 1024
const maxSessions = 10_000

/** What is remembered of a session between its claims; forgotten, it costs one full scan. */
interface SessionMemory {
  readonly shares: QueueShares
  readonly marks: LowWaterMarks
  meanBytes: number | undefined
}

export interface RemoteClaims {
  claim(sessionId: string, facts: SessionFacts, asked: WorkerClaim, signal: AbortSignal): Promise<Claimed>
  forget(sessionId: string): void
}

export interface Claimed {
  readonly runs: readonly ClaimedFunctionRun[]
  /** A cancel was asked for, or a run ended elsewhere, while it waited. */
  readonly canceled: boolean
}

interface Taken {
  readonly run: ClaimedRun
  readonly definition: JobDefinition | undefined
  /** Keeps it from being executed. */
  readonly fault: RunError | undefined
}

export interface RemoteClaimParts {
  readonly watcher: SupplyWatcher
  readonly definitions: DefinitionCache
  readonly identities: Identities
  readonly queue: Pick<RunQueue, 'claim'>
  readonly giveBack: (sessionId: string, runs: readonly HeldRun[]) => Promise<void>
  readonly endOverdue: RemoteEnds['endOverdue']
  /** A run whose definition cannot be used, or that may not be executed, ends here and now. */
  readonly endUnusable: RemoteEnds['endUnusable']
}

export function createRemoteClaims(options: GateSettings, parts: RemoteClaimParts): RemoteClaims {
  const { clock } = options
  const memories = createMemories()
  return {
    async claim(sessionId, facts, { max, waitMs }, signal) {
      const untilMs = clock.monotonicMs() + waitMs
      const wanted = wantedBy(facts)
      const memory = memories.of(sessionId, facts)
      for (;;) {
        const asked = { sessionId, facts, memory, max, signal }
        const taken = max === 0 ? [] : await claimNow(options, parts, asked)
        const leftMs = untilMs - clock.monotonicMs()
        if (taken.length > 0 || signal.aborted || leftMs <= 0)
          return { runs: await handOver(options, parts, asked, taken), canceled: false }
        const woken = await parts.watcher.wait({ sessionId, wanted, max, waitMs: leftMs, signal })
        if (woken !== 'supply') return { runs: [], canceled: woken === 'cancel' }
      }
    },
    forget: memories.forget,
  }
}

function createMemories() {
  const memories = new Map<string, SessionMemory>()
  return {
    of(sessionId: string, facts: SessionFacts): SessionMemory {
      const memory = memories.get(sessionId) ?? {
        shares: createQueueShares(facts.queues),
        marks: createLowWaterMarks(),
        meanBytes: undefined,
      }
      memories.delete(sessionId)
      memories.set(sessionId, memory)
      const oldest = memories.keys().next()
      if (memories.size > maxSessions && oldest.done !== true) memories.delete(oldest.value)
      return memory
    },
    forget: (sessionId: string): void => void memories.delete(sessionId),
  }
}

interface AskedNow {
  readonly sessionId: string
  readonly facts: SessionFacts
  readonly memory: SessionMemory
  readonly max: number
  readonly signal: AbortSignal
}

async function claimNow(
  options: GateSettings,
  parts: RemoteClaimParts,
  { sessionId, facts, memory, max, signal }: AskedNow,
): Promise<readonly Taken[]> {
  const taken: Taken[] = []
  let bytes = 0
  let lapsed = false
  const step = (memory.meanBytes ?? Infinity) <= smallBytes ? max : firstStep
  const intake = createIntake(
    {
      ...options,
      queue: parts.queue,
      routes: facts.functions.map((name) => functionRoute(facts.tenantId, name)),
      laneOf: (queue) => functionLane(queue, facts.tenantId),
      session: { current: () => (lapsed ? undefined : sessionId), lapsed: () => void (lapsed = true) },
      slots: { free: () => (bytes >= answerBytes ? 0 : Math.min(max - taken.length, step)) },
      start(_, run, definition, fault) {
        taken.push({ run, definition, fault })
        bytes += run.input === null ? 0 : JSON.stringify(run.input).length
      },
    },
    {
      shares: memory.shares,
      marks: memory.marks,
      definitions: parts.definitions,
      identities: parts.identities,
      // whose answer was lost is known by the worker, who says so with its next claim
      strays: { giveBack: parts.giveBack, suspect() {} },
    },
  )
  await intake(sessionId, signal)
  if (taken.length > 0) memory.meanBytes = bytes / taken.length
  if (lapsed) throw sessionLost()
  return taken
}

/** What goes to the worker; nothing where it has gone, and nothing that it could not execute. */
async function handOver(
  options: GateSettings,
  parts: RemoteClaimParts,
  { sessionId, signal }: AskedNow,
  taken: readonly Taken[],
): Promise<readonly ClaimedFunctionRun[]> {
  if (signal.aborted) {
    await parts.giveBack(
      sessionId,
      taken.map(({ run }) => run),
    )
    return []
  }
  const overdue = taken.flatMap(({ run }) => (run.overdue === null ? [] : [{ ...run, overdue: run.overdue }]))
  if (overdue.length > 0) await parts.endOverdue(sessionId, overdue)
  const inTime = taken.filter(({ run }) => run.overdue === null)
  const { events, random, databaseClock } = options
  const outfitted = await Promise.all(inTime.map((each) => outfit(options, each)))
  const unusable = outfitted.flatMap((each) => ('facts' in each ? [] : [each]))
  if (unusable.length > 0) await parts.endUnusable(sessionId, unusable)
  return outfitted.flatMap((each) => {
    if (!('facts' in each)) return []
    const { run, facts } = each
    const { runId, tenantId, jobId, attempt, leaseEpoch } = run
    events.emit('attempt_started', { runId, tenantId, jobId, attempt, leaseEpoch })
    return [viewOf(run, facts, databaseClock.nowMs(), () => random.next())]
  })
}

interface FunctionFacts {
  readonly name: string
  readonly delivery: Delivery
  readonly secrets: Record<string, string> | undefined
}

/** With the secrets that its job names, or why it cannot be executed. */
async function outfit(
  { secrets }: Pick<GateSettings, 'secrets'>,
  { run, definition, fault }: Taken,
): Promise<UnusableRun | { readonly run: ClaimedRun; readonly facts: FunctionFacts }> {
  if (fault !== undefined || definition?.handler.kind !== 'function') return { run, fault }
  const { handler, delivery, runAs } = definition
  const { tenantId, jobId } = run
  const { name } = handler
  if (handler.secrets === undefined) return { run, facts: { name, delivery, secrets: undefined } }
  const answer = await secrets.resolve({ tenantId, jobId, handler, runAs })
  if (answer.ok) return { run, facts: { name, delivery, secrets: Object.fromEntries(answer.values) } }
  const { retryable, ...why } = answer.fault
  return { run, fault: why, retryable }
}

function wantedBy({ queues, functions, tenantId }: SessionFacts): readonly Wanted[] {
  return queues.flatMap((queue) => functions.map((name) => ({ queue, route: functionRoute(tenantId, name) })))
}

function viewOf(
  run: ClaimedRun,
  { name, delivery, secrets }: FunctionFacts,
  nowMs: number,
  random: () => number,
): ClaimedFunctionRun {
  const { runDeadlineMs } = run
  return {
    runId: run.runId,
    leaseEpoch: run.leaseEpoch,
    function: name,
    jobId: run.jobId,
    jobVersion: run.jobVersion,
    queue: run.queue,
    attempt: run.attempt,
    timeoutMs: attemptLimit(run.timeoutMs, runDeadlineMs, nowMs).limitMs,
    runDeadline: runDeadlineMs === null ? null : new Date(runDeadlineMs).toISOString(),
    delivery,
    idempotencyKey: run.runId,
    scheduledFor: run.scheduledForMs === null ? null : new Date(run.scheduledForMs).toISOString(),
    traceparent: attemptTraceparent(run.runId, random(), random()),
    input: run.input as ClaimedFunctionRun['input'],
    ...(secrets === undefined ? {} : { secrets }),
  }
}
