/**
 * What happened to a run, step by step, derived from what is stored:
 *
 *   created ─► delay ─► due ─► delay ─► attempt ─► delay ─► attempt … ─► ended
 *
 * Between two steps there is a delay wherever time passed; its reason follows from what stands on either
 * side of it. A pause after a failure that is longer than the policy of the job can draw was asked for by the
 * target. What was held back by a limit and then let go, or waited for another run, is told as time in the
 * queue once it is over: what held it is not on record.
 */
import type { DelayReason, TimelineEntry } from '@belfry/contract'
import { spanWords } from '../explanation/time-words.ts'
import { retryDelayMs } from '../retry.ts'
import { endWords } from './end-words.ts'
import type { RunInsightFacts, TriedAttempt } from './facts.ts'

/** Instants are epoch ms; see TimelineEntry. */
export type TimelineStep = Omit<TimelineEntry, 'at' | 'until'> & {
  readonly atMs: number
  readonly untilMs: number | null
}

/** Less is the time that the steps themselves take. */
const leastDelayMs = 10
/** Between the end of an attempt and the commit that counts the pause from then on. */
const commitMs = 1_000
const drawnMost = 1

const delayWords: Readonly<Record<DelayReason, string>> = {
  due_time: 'its time',
  run: 'another run of its schedule to end',
  dependencies: 'the runs that it depends on',
  limit: 'a limit or a pause to let it pass',
  retry_backoff: 'the next attempt, as the retry policy says',
  retry_after: 'the next attempt, as long as the handler asked for',
  crash_backoff: 'the next attempt, after its worker was lost',
  queue: 'its turn or a free worker',
}

export function timelineOf(facts: RunInsightFacts): readonly TimelineStep[] {
  const { createdAtMs, dueAtMs, tried, olderAttempts, present } = facts
  const steps: TimelineStep[] = [created(facts)]
  if (dueAtMs - createdAtMs >= leastDelayMs) steps.push(delay(facts, 'due_time', createdAtMs, dueAtMs))
  if (dueAtMs > createdAtMs && dueAtMs <= facts.nowMs && !endedEarly(facts)) steps.push(due(facts))
  // where attempts are left out nobody can tell when the first one shown could have started
  let fromMs = olderAttempts > 0 ? null : Math.max(createdAtMs, dueAtMs)
  let failures = olderAttempts
  for (const attempt of tried) {
    if (attempt.number === 0) continue
    steps.push(...queueDelay(facts, fromMs, attempt.startedAtMs), attempted(attempt))
    if (attempt.outcome === 'failed' || attempt.outcome === 'timed_out') failures += 1
    fromMs = attempt.endedAtMs
    if (attempt.retryAtMs === null) continue
    if (attempt.retryAtMs - attempt.endedAtMs >= leastDelayMs)
      steps.push(delay(facts, retryReason(facts, attempt, failures), attempt.endedAtMs, attempt.retryAtMs))
    fromMs = attempt.retryAtMs
  }
  if (present !== null) steps.push(...queueDelay(facts, fromMs, present.startedAtMs), running(present))
  return [...steps, ...standing(facts, fromMs)]
}

const step = { untilMs: null, over: true, reason: null, attempt: null } as const

function created({ createdAtMs, dueAtMs }: RunInsightFacts): TimelineStep {
  const lateMs = createdAtMs - dueAtMs
  const late = lateMs >= leastDelayMs ? `, ${spanWords(lateMs)} after it was due` : ''
  const now = dueAtMs <= createdAtMs && late === '' ? ', due at once' : ''
  return { ...step, kind: 'created', atMs: createdAtMs, words: `Created${late}${now}.` }
}

function due({ dueAtMs }: RunInsightFacts): TimelineStep {
  return { ...step, kind: 'due', atMs: dueAtMs, words: 'Due.' }
}

/** A run that was canceled or ended before its time never came due. */
function endedEarly({ finishedAtMs, dueAtMs }: RunInsightFacts): boolean {
  return finishedAtMs !== null && finishedAtMs < dueAtMs
}

function delay(
  { nowMs, finishedAtMs }: RunInsightFacts,
  reason: DelayReason,
  fromMs: number,
  untilMs: number | null,
): TimelineStep {
  const endMs = finishedAtMs !== null && untilMs !== null ? Math.min(finishedAtMs, untilMs) : untilMs
  const over = endMs !== null && endMs <= nowMs
  const spanMs = (endMs ?? nowMs) - fromMs
  const words = over
    ? `Waited ${spanWords(spanMs)} for ${delayWords[reason]}.`
    : endMs === null
      ? `Waits for ${delayWords[reason]}, ${spanWords(spanMs)} so far.`
      : `Waits for ${delayWords[reason]}, ${spanWords(spanMs)} in all, ${spanWords(endMs - nowMs)} left.`
  return { ...step, kind: 'delay', atMs: fromMs, untilMs: endMs, over, reason, words }
}

function queueDelay(facts: RunInsightFacts, fromMs: number | null, toMs: number): TimelineStep[] {
  return fromMs === null || toMs - fromMs < leastDelayMs ? [] : [delay(facts, 'queue', fromMs, toMs)]
}

function attempted(attempt: TriedAttempt): TimelineStep {
  const { number, outcome, startedAtMs, endedAtMs, errorCode, errorMessage } = attempt
  const error = errorCode === null ? '' : `: ${errorMessage ?? ''} (${errorCode})`
  const ended = outcome.replace('_', ' ')
  const words = `Attempt ${number} ${ended} after ${spanWords(Math.max(0, endedAtMs - startedAtMs))}${error}`
  return { ...step, kind: 'attempt', atMs: startedAtMs, untilMs: endedAtMs, attempt: number, words }
}

function running({ number, startedAtMs, awaited }: NonNullable<RunInsightFacts['present']>): TimelineStep {
  const since = awaited
    ? `: its target took it over after ${spanWords(awaited.acceptedAtMs - startedAtMs)}`
    : ''
  return {
    ...step,
    kind: 'attempt',
    atMs: startedAtMs,
    over: false,
    attempt: number,
    words: `Attempt ${number} is running${since}.`,
  }
}

/** Why the next attempt had to wait after this one. */
export function retryReason(
  { retry }: Pick<RunInsightFacts, 'retry'>,
  { outcome, endedAtMs, retryAtMs }: Pick<TriedAttempt, 'outcome' | 'endedAtMs' | 'retryAtMs'>,
  failures: number,
): DelayReason {
  if (outcome === 'lost') return 'crash_backoff'
  const drawnMs = retryDelayMs(retry, Math.max(1, failures), drawnMost)
  const waitedMs = (retryAtMs ?? endedAtMs) - endedAtMs
  return outcome === 'failed' && waitedMs > drawnMs + commitMs ? 'retry_after' : 'retry_backoff'
}

/** How it stands now, where that is not told by the steps before. */
function standing(facts: RunInsightFacts, fromMs: number | null): TimelineStep[] {
  const { state, createdAtMs, finishedAtMs, nextAttemptAtMs, heldSinceMs, nowMs, tried } = facts
  if (finishedAtMs !== null) {
    const waited = tried.some((attempt) => attempt.number === 0)
    const queued = waited && fromMs !== null ? queueDelay(facts, fromMs, finishedAtMs) : []
    return [...queued, { ...step, kind: 'ended', atMs: finishedAtMs, words: endWords(facts).message }]
  }
  if (state === 'waiting_for_dependencies') return [delay(facts, 'dependencies', createdAtMs, null)]
  if (state !== 'pending') return []
  if (heldSinceMs !== null) return [delay(facts, 'limit', heldSinceMs, null)]
  if (nextAttemptAtMs === null) return [delay(facts, 'run', fromMs ?? nowMs, null)]
  return nextAttemptAtMs > nowMs ? [] : [delay(facts, 'queue', nextAttemptAtMs, null)]
}
