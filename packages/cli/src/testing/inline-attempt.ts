/**
 * One run of an inline Belfry: what is known of it, one attempt of its function, and what follows from how
 * that went. Outcomes, retries and limits are those of the real one. Time is handed in.
 */
import type { Gathered, JsonValue, LogLine, RunCreate } from '@belfry/contract'
import { mayRetry, retryCodesOf, retryLimitMs, retryPolicySchema } from '@belfry/contract'
import type { AnyJob } from '@belfry/sdk'
import { checkedProgress, type FunctionAnswer, lineOf, runFunction } from '@belfry/sdk/functions'

export interface EnqueuedRun {
  readonly id: string
  readonly job: string
  readonly input: unknown
  readonly queue: string
  readonly priority: number
  /** When the next attempt is due, or the last one was. */
  readonly dueAt: Date
  readonly state: 'pending' | 'succeeded' | 'failed' | 'canceled' | 'skipped'
  readonly attempts: number
  readonly results: readonly InlineResult[]
  /** Of what `enqueue` answers: a run held the dedupe key, and no other was made. */
  readonly duplicate: boolean
  readonly duplicateOf: string | null
  /** Of a job that debounces or collects: which request of the run this was. */
  readonly gathered: Gathered | null
  /** Why it failed, where its time was over: it was not called (again). */
  readonly reason?: 'expired' | 'deadline_exceeded'
}

export interface InlineResult {
  readonly attempt: number
  readonly answer: FunctionAnswer
  readonly progress: JsonValue | undefined
  readonly log: readonly Omit<LogLine, 'at'>[]
}

/** As the inline Belfry itself keeps it. */
export type InlineRun = { -readonly [Key in keyof EnqueuedRun]: EnqueuedRun[Key] } & {
  results: InlineResult[]
  limits: { startByMs: number; runDeadlineMs: number }
}

/** Through JSON once, as on its way to a worker. */
export const asJson = (value: unknown): unknown =>
  value === undefined ? null : (JSON.parse(JSON.stringify(value)) as unknown)

/** Calls the function once; the run itself is not changed. */
export async function callInline(
  job: AnyJob,
  run: Pick<InlineRun, 'id' | 'attempts' | 'input' | 'limits'>,
  nowMs: number,
): Promise<InlineResult> {
  const log: Omit<LogLine, 'at'>[] = []
  let progress: JsonValue | undefined
  const at =
    (level: LogLine['level']) =>
    (message: unknown, fields?: Readonly<Record<string, unknown>>): void => {
      const line = lineOf(level, message, fields)
      log.push({
        level,
        message: line.message,
        ...(line.fields === undefined ? {} : { fields: line.fields }),
      })
    }
  const answer = await runFunction(job, run.input, {
    runId: run.id,
    idempotencyKey: run.id,
    attempt: run.attempts,
    leaseEpoch: run.attempts,
    scheduledFor: new Date(nowMs),
    delivery: job.registration.delivery ?? 'at_least_once',
    runDeadline: Number.isFinite(run.limits.runDeadlineMs) ? new Date(run.limits.runDeadlineMs) : null,
    traceparent: `00-${run.id.replaceAll('-', '')}-0000000000000001-01`,
    signal: new AbortController().signal,
    // no server is asked, and no real value belongs into a test
    secrets: Object.fromEntries(
      (job.registration.secrets ?? []).map((name) => [name, `test-value-of-${name}`]),
    ),
    log: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') },
    heartbeat: (word) => {
      progress = checkedProgress(word)
    },
  })
  return { attempt: run.attempts, answer, progress, log }
}

/** What an answer means for its run: over, or due again. */
export function settle(run: InlineRun, answer: FunctionAnswer, job: AnyJob, nowMs: number): void {
  if (answer.outcome !== 'failed') {
    run.state = answer.outcome
    return
  }
  const policy = retryPolicySchema.parse(job.registration.retry ?? {})
  const again = mayRetry(policy, retryCodesOf(answer.error.code, null), answer.retryable)
  const once = job.registration.delivery === 'at_most_once'
  if (once || !again || run.attempts >= policy.maxAttempts) {
    run.state = 'failed'
    return
  }
  const delayMs = Math.max(retryLimitMs(policy, run.attempts), answer.retryAfterMs ?? 0)
  if (nowMs + delayMs >= run.limits.runDeadlineMs)
    Object.assign(run, { state: 'failed', reason: 'deadline_exceeded' })
  else run.dueAt = new Date(nowMs + delayMs)
}

/** Infinity: no limit. */
export function limitsOf(
  { registration }: AnyJob,
  asked: Pick<RunCreate, 'startWithinMs' | 'runDeadlineMs'>,
  dueMs: number,
): InlineRun['limits'] {
  const after = (own: number | null | undefined, jobs: number | null | undefined): number =>
    dueMs + ((own === undefined ? jobs : own) ?? Infinity)
  return {
    startByMs: after(asked.startWithinMs, registration.startWithinMs),
    runDeadlineMs: after(asked.runDeadlineMs, registration.runDeadlineMs),
  }
}

/** Why a run is not called (again), if its time is over. */
export function overdueReason({ limits, attempts }: InlineRun, nowMs: number): EnqueuedRun['reason'] {
  if (limits.runDeadlineMs <= nowMs) return 'deadline_exceeded'
  return attempts === 0 && limits.startByMs <= nowMs ? 'expired' : undefined
}
