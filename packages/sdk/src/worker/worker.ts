/**
 * The remote worker: runs functions in this process for a server that it reaches over the API alone.
 *
 *   claim ──► slot taken ──► attempt ──► log flushed ──► end reported ──► acknowledged ──► slot free
 *
 * 1. Everything that it holds hangs on its session. When that is lost, every signal fires, and what still
 *    succeeds is reported under the old epoch: the server takes it or does not.
 * 2. Stop: claim no more; drain, up to `drainMs`; signal `shutdown` to what still runs; report the ends (what
 *    was cut off goes back into the queue, uncounted); give back what was never begun; close the session.
 * 3. With `handleSignals`, SIGTERM and SIGINT stop it and end the process; a second one ends it at once.
 */
import type { ClaimedFunctionRun } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import type { AnyJob } from '../functions/define-job.ts'
import { queueOf } from '../functions/define-job.ts'
import { baseUrlOf } from '../base-url.ts'
import {
  aFunction,
  checkOptions,
  flag,
  jobs as jobsRule,
  milliseconds,
  text,
  texts,
  token,
  whole,
} from '../check-input.ts'
import { maskingOf } from '../functions/masking.ts'
import { startAttempt } from './attempt.ts'
import { type ClaimLoop, createClaimLoop } from './claim-loop.ts'
import type { Renewed } from './heartbeat-thread.ts'
import { createHeldRuns, type HeldRuns } from './held-runs.ts'
import { createLogBuffer } from './log-buffer.ts'
import { createProtocol, type Protocol } from './protocol.ts'
import { createReporter, type Reporter } from './reporter.ts'
import { createSessions, type Session, type Sessions } from './sessions.ts'
import { endOnSignals } from './signals.ts'
import { guarded, type WorkerListener } from './worker-events.ts'

export interface WorkerOptions {
  readonly jobs: readonly AnyJob[]
  /** Where the API is. */
  readonly url: string
  /** An API key with the scope `worker`. */
  readonly token: string
  /** Runs at a time. Default 10. */
  readonly slots?: number
  /** Default: those of the jobs. */
  readonly queues?: readonly string[]
  /** Whether the jobs are made or updated on the server at the start. Default true. */
  readonly register?: boolean
  /** How long a stop waits for functions before it signals them. Default 30,000 ms. */
  readonly drainMs?: number
  /** How long a function may go on after its signal. Default 5,000 ms. */
  readonly abortGraceMs?: number
  /** Default true. */
  readonly handleSignals?: boolean
  /** Of the program, for people to see. */
  readonly version?: string
  readonly fetch?: typeof fetch
  readonly onEvent?: WorkerListener
}

export interface WorkerStats {
  readonly sessionId: string | null
  readonly slots: number
  readonly busy: number
  /** Functions that ignored their signal and still run. */
  readonly abandoned: number
}

export interface Worker extends AsyncDisposable {
  /** Resolves when it serves. Throws where the server refuses it; one that does not answer is waited for. */
  start(): Promise<void>
  /** Resolves when nothing of it runs any more. May be called twice. */
  stop(): Promise<void>
  stats(): WorkerStats
}

const batchMs = 20
const flushMs = 8_000
const closeMs = 2_000

const workerRules = {
  jobs: jobsRule,
  url: text,
  token,
  slots: whole(1, 10_000),
  queues: texts,
  register: flag,
  drainMs: milliseconds,
  abortGraceMs: milliseconds,
  handleSignals: flag,
  version: { what: 'a text', fits: (value: unknown) => typeof value === 'string' },
  fetch: aFunction,
  onEvent: aFunction,
}

/** Throws `invalid_request` or `invalid_config` for options that cannot be meant. */
export function createWorker(options: WorkerOptions): Worker {
  checkOptions('createWorker', 'invalid_request', options, workerRules, ['jobs', 'token'])
  const slots = options.slots ?? 10
  const jobs = jobsByName(options.jobs)
  const tell = guarded(options.onEvent)
  const protocol = createProtocol({
    url: baseUrlOf(options.url),
    token: options.token,
    fetch: options.fetch ?? globalThis.fetch,
  })
  const held = createHeldRuns(slots, () => loop.wake())
  const onRenewed = (sessionId: string, renewed: Renewed): void => abortAsTold(held, sessionId, renewed)
  const sessions = createSessions({
    protocol,
    functions: [...jobs.keys()],
    queues: options.queues ?? [...new Set(options.jobs.map(queueOf))],
    slots,
    version: options.version ?? '',
    tell,
    onRenewed,
    onLost: (sessionId) => {
      for (const each of held.all()) if (each.sessionId === sessionId) each.abort('lease_lost')
    },
  })
  const reporter = createReporter({
    batchMs,
    batchSize: 500,
    send: protocol.complete,
    nothingElseRuns: (pending) => pending >= held.busy(),
    onTrouble: (what, error, retryInMs) => tell({ kind: 'trouble', what, error, retryInMs }),
  })
  const abortGraceMs = options.abortGraceMs ?? 5_000
  const start = createStarter({ jobs, protocol, held, reporter, tell, abortGraceMs })
  const loop: ClaimLoop = createClaimLoop({ protocol, sessions, held, tell, start, onRenewed })
  const parts = { options, protocol, held, sessions, reporter, loop, abortGraceMs }

  let stopped: Promise<void> | undefined
  let forgetSignals = (): void => {}
  const stop = (): Promise<void> => {
    if (stopped === undefined) tell({ kind: 'stopping' })
    stopped ??= stopInSteps(parts).finally(() => forgetSignals())
    return stopped
  }
  return {
    async start() {
      if (options.register !== false) await registerPatiently(protocol, options.jobs, tell, () => stopped)
      if (options.handleSignals !== false) forgetSignals = endOnSignals(stop)
      await loop.start()
    },
    stop,
    stats: () => ({
      sessionId: sessions.current()?.id ?? null,
      slots,
      busy: held.busy(),
      abandoned: held.leftBehind(),
    }),
    [Symbol.asyncDispose]: stop,
  }
}

/**
 * Cancels what is to be canceled, and stops what the session no longer holds: its end was written by others.
 * What came after the call was sent was not known yet.
 */
function abortAsTold(held: HeldRuns, sessionId: string, { sentAt, heldRunIds, cancelRunIds }: Renewed): void {
  const kept = new Set(heldRunIds)
  const canceled = new Set(cancelRunIds)
  for (const each of held.all()) {
    if (each.sessionId !== sessionId) continue
    if (canceled.has(each.runId)) each.abort('cancel')
    else if (each.since < sentAt && !kept.has(each.runId)) each.abort('lease_lost')
  }
}

function jobsByName(list: readonly AnyJob[]): ReadonlyMap<string, AnyJob> {
  const jobs = new Map(list.map((job) => [job.name, job]))
  const fault =
    list.length === 0
      ? 'needs at least one job'
      : jobs.size < list.length
        ? 'has two jobs of the same name; give each its own'
        : undefined
  if (fault === undefined) return jobs
  throw new BelfryError('invalid_request', `The worker ${fault}.`, {
    errors: [{ pointer: '/jobs', message: fault }],
  })
}

/** A server that is not there yet is waited for; one that refuses is not. */
async function registerPatiently(
  protocol: Protocol,
  jobs: readonly AnyJob[],
  tell: WorkerListener,
  stopped: () => unknown,
): Promise<void> {
  for (let failures = 0; stopped() === undefined; failures++) {
    try {
      await protocol.register(jobs)
      return
    } catch (error) {
      if (!(error instanceof BelfryError) || !error.retryable) throw error
      const retryInMs = Math.round(
        Math.min(10_000, 200 * 2 ** Math.min(failures, 6)) * (0.5 + Math.random() / 2),
      )
      tell({ kind: 'trouble', what: 'register', error, retryInMs })
      await new Promise((resolve) => setTimeout(resolve, retryInMs))
    }
  }
}

interface StarterParts {
  readonly jobs: ReadonlyMap<string, AnyJob>
  readonly protocol: Protocol
  readonly held: HeldRuns
  readonly reporter: Reporter
  readonly tell: WorkerListener
  readonly abortGraceMs: number
}

/** Answers what begins an attempt and sees it through to its report. */
function createStarter({ jobs, protocol, held, reporter, tell, abortGraceMs }: StarterParts) {
  const waiting = { bytes: 0 }
  return (session: Session, run: ClaimedFunctionRun): void => {
    const { runId, leaseEpoch, attempt } = run
    const job = jobs.get(run.function)
    const name = { runId, leaseEpoch }
    if (job === undefined) {
      // never asked for; whoever has it may have it
      const error = { code: 'function_missing', message: `This worker has no function "${run.function}".` }
      const report = { ...name, outcome: 'failed', retryable: true, durationMs: 0, error } as const
      reporter.submit({ sessionId: session.id, report, onDone() {} })
      return
    }
    let cutOff = false
    const logs = createLogBuffer({
      send: (chunk) => protocol.log(session.id, chunk),
      mask: maskingOf(run.secrets).line,
      waiting,
      alive: () => !cutOff,
      onTrouble: (error, retryInMs) => tell({ kind: 'trouble', what: 'log', error, retryInMs }),
      onDropped: (lines) => tell({ kind: 'log_dropped', runId, lines }),
    })
    const { log, flushed } = logs.open(name)
    tell({ kind: 'attempt_started', runId, job: job.name, attempt })
    const running = startAttempt({
      job,
      run,
      abortGraceMs,
      log,
      onProgress: (progress) => session.lease.report({ ...name, progress }),
    })
    const free = held.take({
      ...name,
      sessionId: session.id,
      since: process.hrtime.bigint(),
      abort(reason) {
        cutOff ||= reason === 'lease_lost' || reason === 'shutdown'
        running.abort(reason)
      },
    })
    void running.done.then(async ({ report, durationMs, abandoned }) => {
      if (abandoned !== undefined) {
        held.leaveBehind(abandoned)
        tell({ kind: 'function_abandoned', runId, job: job.name })
      }
      const outcome = report?.outcome ?? 'lease_lost'
      const error = report?.error ?? null
      tell({ kind: 'attempt_ended', runId, job: job.name, attempt, outcome, durationMs, error })
      await flushed()
      if (report === undefined) return free(true)
      const onDone = (applied: boolean, told: boolean): void => {
        if (!applied) tell({ kind: 'end_refused', runId })
        free(told)
      }
      reporter.submit({ sessionId: session.id, report, onDone })
    })
  }
}

interface StopParts {
  readonly options: WorkerOptions
  readonly protocol: Protocol
  readonly held: HeldRuns
  readonly sessions: Sessions
  readonly reporter: Reporter
  readonly loop: ClaimLoop
  readonly abortGraceMs: number
}

async function stopInSteps(parts: StopParts): Promise<void> {
  const { options, protocol, held, sessions, reporter, loop, abortGraceMs } = parts
  await loop.stop()
  await held.emptied(options.drainMs ?? 30_000)
  for (const each of held.all()) each.abort('shutdown')
  await held.emptied(abortGraceMs + 1_000)
  await reporter.stop(flushMs)
  const last = sessions.drop()
  if (last === undefined) return
  const limit = AbortSignal.timeout(closeMs)
  // a claim that was called off may have been answered with runs: those go back, but none that was started,
  // whose end may not have been reported; whatever fails here ends with the lease
  const known = [...held.startedUnder(last.id)]
  await protocol.claim(last.id, { max: 0, waitMs: 0, known }, limit).catch(() => undefined)
  await protocol.close(last.id).catch(() => undefined)
}
