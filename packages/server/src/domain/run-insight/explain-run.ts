/**
 * Why a run is where it is, decided from facts alone: the first of these that holds.
 *
 *   1. it has ended: why so;
 *   2. it runs: since when, where, until when at most; whether its cancel was asked for, or its worker is
 * gone;
 *   3. another run must end before it, or the runs that it depends on;
 *   4. it still takes the inputs of further requests;
 *   5. its time, or that of its next attempt, has not come;
 *   6. a limit or a pause holds it;
 *   7. nobody who could run it is alive;
 *   8. its turn has not come: how many are before it.
 */
import type { Dependency, RunVerdict, TriggerRule } from '@belfry/contract'
import { isTerminal } from '@belfry/contract'
import { countWords } from '../dependencies.ts'
import { spanWords } from '../explanation/time-words.ts'
import { endWords } from './end-words.ts'
import type { AwaitedReport, RunInsightFacts } from './facts.ts'
import type { Gathering } from './gathering-words.ts'
import { gatheringWords } from './gathering-words.ts'
import { retryReason } from './timeline.ts'

/** Of a run in a queue, or under way. Instants are epoch ms. */
export interface Standing {
  /** Null: not a function. */
  readonly functionName: string | null
  /** Runs before it that may start, counted up to a limit. */
  readonly ahead: number
  readonly aheadCapped: boolean
  /** Live workers that serve its queue and can execute it. */
  readonly servers: { readonly workers: number; readonly slots: number; readonly held: number }
  /** Live workers that have its function and serve other queues; always 0 for an HTTP job. */
  readonly servingElsewhere: number
  /** The session that holds it; null: none does. */
  readonly session: SessionStanding | null
}

export interface SessionStanding {
  readonly id: string
  /** Null: the session is gone. */
  readonly alive: {
    readonly host: string
    readonly heartbeatAtMs: number
    readonly expiresAtMs: number
  } | null
  readonly claimedAtMs: number
  readonly deadlineMs: number
}

/** A limit or a pause that holds a run at the gate, as its keeper tells it. */
export interface Hold {
  readonly sinceMs: number | null
  readonly message: string
  readonly clearsAtMs: number | null
  readonly fix: string | null
  readonly runIds: readonly string[]
}

export interface RunFacts extends RunInsightFacts {
  readonly queue: string
  readonly afterRunId: string | null
  /** The runs that it depends on, and by what rule; null: none. */
  readonly dependsOn: readonly Dependency[]
  readonly rule: TriggerRule | null
  readonly startByMs: number | null
  readonly hold: Hold | null
  /** Null: it takes no further inputs. */
  readonly gathering: Gathering | null
  /** Null where it stands in no queue. */
  readonly standing: Standing | null
}

export interface RunExplained {
  readonly verdict: RunVerdict
  readonly message: string
  readonly sinceMs: number | null
  readonly clearsAtMs: number | null
  readonly fix: string | null
  readonly runIds: readonly string[]
  readonly workerId: string | null
  readonly place: { readonly ahead: number; readonly capped: boolean } | null
}

/** A worker renews its lease three times while it lasts; one that missed two is in trouble. */
const troubledMs = 20_000
/** Schedulers let a run in at its time; later than this something is wrong with them. */
const releaseMs = 5_000

const nothing = {
  sinceMs: null,
  clearsAtMs: null,
  fix: null,
  runIds: [],
  workerId: null,
  place: null,
} as const

export function explainRun(facts: RunFacts): RunExplained {
  const { state, finishedAtMs, afterRunId, standing, hold } = facts
  if (isTerminal(state)) return { ...nothing, verdict: 'ended', sinceMs: finishedAtMs, ...endWords(facts) }
  const awaited = facts.present?.awaited ?? null
  if (awaited !== null) return awaitingReport(facts, awaited)
  const session = standing?.session ?? null
  if (session !== null) return running(facts, session)
  if (facts.present !== null) return justMoving(facts)
  if (afterRunId !== null) return behindRun(afterRunId)
  if (state === 'waiting_for_dependencies') return behindDependencies(facts)
  const { gathering, nowMs } = facts
  if (gathering !== null && gathering.dueAtMs > nowMs) return takingInputs(gathering, facts)
  return beforeItsTime(facts) ?? (hold === null ? inQueue(facts) : held(hold))
}

function running(facts: RunFacts, session: SessionStanding): RunExplained {
  const { nowMs, cancelRequested } = facts
  const { id, alive, claimedAtMs, deadlineMs } = session
  const base = { ...nothing, sinceMs: claimedAtMs, workerId: id }
  const where = alive === null || alive.host === '' ? `worker ${id}` : alive.host
  const silentMs = alive === null ? null : nowMs - alive.heartbeatAtMs
  if (alive === null || alive.expiresAtMs <= nowMs) {
    const heard =
      silentMs === null ? 'Its worker is gone' : `Its worker was last heard of ${spanWords(silentMs)} ago`
    const next =
      facts.delivery === 'at_most_once'
        ? 'The rescuer ends it as failed (outcome_unknown): it is not started a second time.'
        : 'The rescuer takes it back within seconds, and another worker starts it again.'
    const fix = 'See that a process with the role scheduler runs: the rescuer is a part of it.'
    return { ...base, verdict: 'worker_lost', message: `${heard}: its lease has run out. ${next}`, fix }
  }
  if (cancelRequested)
    return {
      ...base,
      verdict: 'cancel_requested',
      message: `Its cancel was asked for; ${where} was told and has not ended it yet.`,
      clearsAtMs: deadlineMs,
      fix: 'A function ends by its signal: it should listen to `ctx.signal`.',
    }
  const trouble =
    silentMs !== null && silentMs > troubledMs
      ? ` The worker has been silent for ${spanWords(silentMs)}; its lease ends in ` +
        `${spanWords(alive.expiresAtMs - nowMs)}.`
      : ''
  const began = `It has been running on ${where} for ${spanWords(nowMs - claimedAtMs)}`
  // the deadline of its row: of a function some time after its timeout, which its worker sees to
  const until =
    deadlineMs > nowMs
      ? `, and is taken from there in ${spanWords(deadlineMs - nowMs)} at the latest`
      : ', past its deadline'
  return { ...base, verdict: 'running', message: `${began}${until}.${trouble}`, clearsAtMs: deadlineMs }
}

/** No worker holds it: its target works on it, and reports. */
function awaitingReport(facts: RunFacts, awaited: AwaitedReport): RunExplained {
  const { nowMs, cancelRequested } = facts
  const { acceptedAtMs, reportByMs, heardAtMs, heartbeatByMs } = awaited
  const base = {
    ...nothing,
    sinceMs: acceptedAtMs,
    clearsAtMs: Math.min(reportByMs, heartbeatByMs ?? reportByMs),
  }
  if (cancelRequested) {
    const told = heartbeatByMs === null ? 'it cannot be told' : 'it is told with its next heartbeat'
    const message = `Its cancel was asked for while its target has it: ${told}. The rescuer ends the run.`
    return { ...base, verdict: 'cancel_requested', message }
  }
  const heard = heardAtMs === null ? '' : `; it was heard of ${spanWords(Math.max(0, nowMs - heardAtMs))} ago`
  const left = (byMs: number): string => (byMs > nowMs ? `within ${spanWords(byMs - nowMs)}` : 'by now')
  const sign = heartbeatByMs === null ? '' : `, and a sign of life ${left(heartbeatByMs)}`
  const message =
    `Its target took it over ${spanWords(Math.max(0, nowMs - acceptedAtMs))} ago${heard}. It is to report ` +
    `the end ${left(reportByMs)}${sign}.`
  return { ...base, verdict: 'running', message }
}

/** It was seen under way, and moved on before its queue was looked at. */
function justMoving({ present }: RunFacts): RunExplained {
  const message = 'It has just ended an attempt; ask again.'
  return { ...nothing, verdict: 'running', message, sinceMs: present?.startedAtMs ?? null }
}

function behindRun(runId: string): RunExplained {
  return {
    ...nothing,
    verdict: 'waiting_for_run',
    message: `It waits for another run of its schedule to end: ${runId}.`,
    fix: 'Cancel that run, or set "overlap" of the schedule to "allow".',
    runIds: [runId],
  }
}

/** As many of them as are named. */
const mostNamed = 100

function behindDependencies({ dependsOn, rule, createdAtMs }: RunFacts): RunExplained {
  const open = dependsOn.filter(({ state }) => state === null)
  const states = new Map<Dependency['state'], number>()
  for (const { state } of dependsOn) states.set(state, (states.get(state) ?? 0) + 1)
  const what = `${counted(dependsOn.length, 'run')} that it depends on`
  return {
    ...nothing,
    verdict: 'waiting_for_dependencies',
    sinceMs: createdAtMs,
    message: `It waits for the ${what}, by the rule ${rule ?? ''}: ${countWords(states)}.`,
    fix: 'See what holds those that have not ended: belfry run explain, with the id of one.',
    runIds: open.slice(0, mostNamed).map(({ runId }) => runId),
  }
}

function takingInputs(gathering: Gathering, { createdAtMs, nowMs }: RunFacts): RunExplained {
  return {
    ...nothing,
    verdict: 'gathering',
    message: gatheringWords(gathering, nowMs),
    sinceMs: gathering.openedAtMs ?? createdAtMs,
    clearsAtMs: gathering.dueAtMs,
  }
}

function beforeItsTime(facts: RunFacts): RunExplained | undefined {
  const { nextAttemptAtMs, nowMs, tried, standing, createdAtMs, olderAttempts } = facts
  if (nextAttemptAtMs === null) return undefined
  const leftMs = nextAttemptAtMs - nowMs
  const last = tried.at(-1)
  if (leftMs > 0) {
    const left = `in ${spanWords(leftMs)}`
    const clears = { clearsAtMs: nextAttemptAtMs }
    if (last === undefined)
      return {
        ...nothing,
        ...clears,
        verdict: 'waiting_for_time',
        message: `It waits for its time, ${left}.`,
        sinceMs: createdAtMs,
      }
    const failures =
      olderAttempts + tried.filter(({ outcome }) => outcome === 'failed' || outcome === 'timed_out').length
    const why = {
      crash_backoff: 'its worker was lost',
      retry_after: 'the handler asked for this pause',
      retry_backoff: 'as the retry policy of the job says',
    }
    const reason = retryReason(facts, last, failures)
    const words = reason in why ? why[reason as keyof typeof why] : why.retry_backoff
    const error =
      last.errorCode === null ? '' : ` The last one: ${last.errorMessage ?? ''} (${last.errorCode}).`
    return {
      ...nothing,
      ...clears,
      verdict: 'retry_delay',
      message: `Its next attempt starts ${left}: ${words}.${error}`,
      sinceMs: last.endedAtMs,
      fix: 'Shorten "retry" of the job for later ones, or cancel it.',
    }
  }
  if (standing !== null) return undefined
  const late = leftMs < -releaseMs
  return {
    ...nothing,
    verdict: 'waiting_for_time',
    message: `It is due for ${spanWords(-leftMs)}, and a scheduler has yet to let it into its queue.`,
    sinceMs: nextAttemptAtMs,
    fix: late ? 'See that a process with the role scheduler runs and is ready: /readyz?verbose tells.' : null,
  }
}

function held({ sinceMs, message, clearsAtMs, fix, runIds }: Hold): RunExplained {
  return { ...nothing, verdict: 'held', message, sinceMs, clearsAtMs, fix, runIds }
}

function inQueue(facts: RunFacts): RunExplained {
  const { standing, queue, nextAttemptAtMs, startByMs, nowMs } = facts
  const since = { sinceMs: nextAttemptAtMs }
  if (standing === null) return { ...nothing, ...since, verdict: 'queued', message: 'It is about to start.' }
  const { functionName, ahead, aheadCapped: capped, servers, servingElsewhere } = standing
  const place = { ahead, capped }
  const expires = startByMs === null ? '' : ` It expires in ${spanWords(Math.max(0, startByMs - nowMs))}.`
  if (servers.workers === 0) {
    const what =
      functionName === null
        ? 'no server with the role worker'
        : `no worker with the function "${functionName}"`
    const elsewhere =
      servingElsewhere === 0
        ? ''
        : ` ${counted(servingElsewhere, 'worker')} of the function ` +
          `${servingElsewhere === 1 ? 'serves' : 'serve'} other queues.`
    const fix =
      functionName === null
        ? `Start a server with the role worker, and "${queue}" or * among its workerQueues.`
        : `Start a worker that has the function "${functionName}" and serves the queue "${queue}".`
    const message = `There is nobody to run it: ${what} serves the queue "${queue}".${elsewhere}${expires}`
    return { ...nothing, ...since, verdict: 'no_worker', message, fix, place }
  }
  const before =
    ahead === 0 ? 'It is the next' : `${capped ? 'At least ' : ''}${counted(ahead, 'run')} before it`
  const full = servers.held >= servers.slots
  const { workers, held, slots } = servers
  const who = `${counted(workers, 'worker')} with ${held} of ${counted(slots, 'slot')} busy`
  return {
    ...nothing,
    ...since,
    verdict: 'queued',
    message: `${before} in the fair order of the queue "${queue}"; ${who}.${expires}`,
    fix: full ? 'Add workers or slots, or raise its priority.' : null,
    place,
  }
}

const counted = (count: number, noun: string): string =>
  `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`
