/**
 * What workers outside this process reach of the engine: sessions, claims, ends. It stands behind the API and
 * acts through the same ports as the worker in this process, so the rules are the same. It holds nothing that
 * matters: any process with an API can take the next call of any session.
 */
import type {
  AttemptReport,
  JsonValue,
  LogChunk,
  WorkerClaim,
  WorkerClaimed,
  WorkerCompleted,
  WorkerOpen,
  WorkerOpened,
} from '@belfry/contract'
import { BelfryError, maxClaimWaitMs, maxLogBytes, maxWorkerBatch } from '@belfry/contract'
import type { TagClock } from '../../domain/fair-queue.ts'
import type { Clock } from '../../ports/clock.ts'
import type { EventSink } from '../../ports/event-sink.ts'
import type { Hints } from '../../ports/hints.ts'
import type { Ids } from '../../ports/ids.ts'
import type { Random } from '../../ports/random.ts'
import type { RunQueue } from '../../ports/run-queue.ts'
import type { HeldRun, RunStore } from '../../ports/run-store.ts'
import type { SecretSource } from '../../ports/secrets.ts'
import type { HeldName, LogKept, WorkerStore } from '../../ports/worker-store.ts'
import type { DatabaseClock } from '../database-clock.ts'
import { createDefinitionCache } from '../definition-cache.ts'
import { createIdentities } from '../identities.ts'
import { hintTimers } from '../timer-hints.ts'
import { createRemoteClaims } from './remote-claims.ts'
import { createRemoteEnds, type RemoteEnds } from './remote-ends.ts'
import { createReportMasks } from './report-masks.ts'
import { noSecrets } from './no-secrets.ts'
import { createSessionBook, sessionLost, type WorkerOwner } from './session-book.ts'
import { createSupplyWatcher } from './supply-watcher.ts'

export interface WorkerGateOptions {
  readonly queue: RunQueue
  readonly store: RunStore
  readonly workers: WorkerStore
  readonly hints: Hints
  readonly clock: Clock
  readonly databaseClock: DatabaseClock
  readonly random: Random
  readonly ids: Ids
  readonly events: EventSink
  readonly tags: Pick<TagClock, 'observeClaimed'>
  /** Default: there are none. */
  readonly secrets?: SecretSource
  readonly leaseMs: number
  readonly heartbeatMs: number
  /** Added to the attempt timeout: after that the rescuer takes the run. Default 30 s. */
  readonly deadlineMarginMs?: number
}

/** With every default filled in. */
export type GateSettings = Required<WorkerGateOptions>

/** What a renewal brings: what the session holds, and which of it is to be canceled. */
interface Renewed {
  readonly heldRunIds: string[]
  readonly cancelRunIds: string[]
}

type Progress = HeldName & { readonly progress: JsonValue }

/** Every method throws `session_lost` where the owner has no such session, and as the store does. */
export interface WorkerGate {
  /** Throws `forbidden` for queues that the key may not serve. */
  open(owner: WorkerOwner, asked: WorkerOpen): Promise<WorkerOpened>
  claim(
    owner: WorkerOwner,
    sessionId: string,
    asked: WorkerClaim,
    signal: AbortSignal,
  ): Promise<WorkerClaimed>
  heartbeat(
    owner: WorkerOwner,
    sessionId: string,
    progress: readonly Progress[],
  ): Promise<{ leaseMs: number } & Renewed>
  complete(
    owner: WorkerOwner,
    sessionId: string,
    ends: readonly AttemptReport[],
  ): Promise<WorkerCompleted['results']>
  release(owner: WorkerOwner, sessionId: string, runs: readonly HeldName[]): Promise<readonly string[]>
  log(owner: WorkerOwner, sessionId: string, chunks: readonly LogChunk[]): Promise<readonly LogKept[]>
  close(owner: WorkerOwner, sessionId: string): Promise<void>
  /** Claims that wait now. */
  waiting(): number
  /** Ends every wait, and those to come: this process stops. */
  drain(): void
}

const defaultMarginMs = 30_000
const limits = { maxBatch: maxWorkerBatch, maxWaitMs: maxClaimWaitMs, logCapBytes: maxLogBytes }

export function createWorkerGate(given: WorkerGateOptions): WorkerGate {
  const { deadlineMarginMs = defaultMarginMs, secrets = noSecrets } = given
  const options = { ...given, deadlineMarginMs, secrets }
  const { store, workers, ids, databaseClock, events, leaseMs } = options
  const { book, watcher, ends, returns, claims, masks } = openParts(options)

  async function renew(sessionId: string): Promise<Renewed> {
    const { alive, heldRunIds, cancelRunIds } = await store.renewSession(sessionId, leaseMs)
    if (alive) return { heldRunIds: [...heldRunIds], cancelRunIds: [...cancelRunIds] }
    book.strike(sessionId)
    claims.forget(sessionId)
    events.emit('session_lost', { sessionId, role: 'worker' })
    throw sessionLost()
  }

  return {
    async open(owner, asked) {
      checkQueues(owner, asked.queues)
      const { functions, ...told } = asked
      const facts = { tenantId: owner.tenantId, keyId: owner.keyId, functions }
      const id = ids.uuidv7(databaseClock.nowMs())
      await store.openSession({ id, ...told, owner: facts }, leaseMs)
      book.enter(id, { ...facts, queues: asked.queues })
      events.emit('session_started', { sessionId: id, role: 'worker' })
      return { id, leaseMs, heartbeatMs: options.heartbeatMs, ...limits }
    },
    async claim(owner, sessionId, asked, signal) {
      const facts = await book.of(owner, sessionId)
      if (asked.known !== undefined) await returns.giveBackUnknown(sessionId, asked.known)
      const { runs, canceled } = await claims.claim(sessionId, facts, asked, signal)
      const renewed = canceled ? await renew(sessionId) : { heldRunIds: null, cancelRunIds: [] }
      return { runs: [...runs], ...renewed }
    },
    async heartbeat(owner, sessionId, progress) {
      await book.of(owner, sessionId)
      const renewed = await renew(sessionId)
      if (progress.length > 0)
        await workers.reportProgress(sessionId, await masks.progress(sessionId, progress))
      return { leaseMs, ...renewed }
    },
    async complete(owner, sessionId, reports) {
      await book.of(owner, sessionId)
      return ends.complete(sessionId, reports)
    },
    async release(owner, sessionId, runs) {
      await book.of(owner, sessionId)
      return returns.giveBackNamed(sessionId, runs)
    },
    async log(owner, sessionId, chunks) {
      await book.of(owner, sessionId)
      const { tenantId } = owner
      return workers.appendLogs(
        sessionId,
        chunks.map((chunk) => ({ ...chunk, tenantId })),
      )
    },
    async close(owner, sessionId) {
      await book.of(owner, sessionId)
      book.strike(sessionId)
      claims.forget(sessionId)
      await store.closeSession(sessionId)
    },
    waiting: () => watcher.waiting(),
    drain: () => watcher.close(),
  }
}

function openParts(options: GateSettings) {
  const { store, workers, queue } = options
  const watcher = createSupplyWatcher({ ...options, store: workers })
  const definitions = createDefinitionCache(store)
  const identities = createIdentities(store, options.clock)
  const ends = createRemoteEnds(options, definitions)
  const masks = createReportMasks(options, definitions)
  const returns = createReturns(options)
  const endUnusable: RemoteEnds['endUnusable'] = (sessionId, runs) => ends.endUnusable(sessionId, runs)
  const endOverdue: RemoteEnds['endOverdue'] = (sessionId, runs) => ends.endOverdue(sessionId, runs)
  const back = { giveBack: returns.giveBack, endUnusable, endOverdue }
  const claims = createRemoteClaims(options, { watcher, definitions, identities, queue, ...back })
  return { book: createSessionBook(workers), watcher, ends, returns, claims, masks }
}

/** Ways back into the queue for what a session holds and nobody has begun. */
function createReturns({ store, hints }: WorkerGateOptions) {
  async function giveBack(sessionId: string, runs: readonly HeldRun[]): Promise<readonly string[]> {
    if (runs.length === 0) return []
    const { handedBackRunIds, timerShards } = await store.handBack(sessionId, runs)
    hintTimers(hints, [], { timerShards })
    const back = new Set(handedBackRunIds)
    const queues = new Set(runs.filter((run) => back.has(run.runId)).map((run) => run.queue))
    for (const queue of queues) hints.publish({ topic: 'ready', key: queue })
    return runs.map((run) => run.runId)
  }

  return {
    giveBack: async (sessionId: string, runs: readonly HeldRun[]): Promise<void> =>
      void (await giveBack(sessionId, runs)),
    async giveBackNamed(sessionId: string, named: readonly HeldName[]): Promise<readonly string[]> {
      const names = new Set(named.map(nameOf))
      const held = await store.heldRuns(sessionId)
      return giveBack(
        sessionId,
        held.filter((run) => names.has(nameOf(run))),
      )
    },
    /** What the session holds beyond what its worker knows of: the answer to a claim was lost. */
    async giveBackUnknown(sessionId: string, known: readonly HeldName[]): Promise<void> {
      const names = new Set(known.map(nameOf))
      const held = await store.heldRuns(sessionId)
      await giveBack(
        sessionId,
        held.filter((run) => !names.has(nameOf(run))),
      )
    },
  }
}

const nameOf = ({ runId, leaseEpoch }: HeldName): string => `${runId} ${leaseEpoch}`

function checkQueues({ queues: allowed }: WorkerOwner, asked: readonly string[]): void {
  if (allowed === null) return
  const message = `is not among the queues of this key (${allowed.join(', ')}); use another key`
  const errors = asked.flatMap((queue, index) =>
    allowed.includes(queue) ? [] : [{ pointer: `/queues/${index}`, message }],
  )
  if (errors.length === 0) return
  const words = asked.filter((queue) => !allowed.includes(queue)).join(', ')
  throw new BelfryError(
    'forbidden',
    `This key may not serve ${words}: it is bound to ${allowed.join(', ')}.`,
    {
      errors,
    },
  )
}
