/**
 * A Belfry for unit tests: runs wait in memory until the test says so, functions run in the test's own
 * process, and time stands still until it is set. Schemas, outcomes and retries are those of the real one,
 * with full jitter taken as its upper end, so that a test knows when the next attempt is due. There is no
 * database, no concurrency and no lease here: for those there is `startTestBelfry`.
 */
import type { JsonValue, LogLine } from '@belfry/contract'
import { retryPolicySchema } from '@belfry/contract'
import type { AnyJob, EnqueueOptions, Job } from '@belfry/sdk'
import { enqueueRequest, type FunctionAnswer, queueOf, runFunction } from '@belfry/sdk/functions'

export interface InlineOptions {
  readonly jobs: readonly AnyJob[]
  /** Where the clock stands. Default 2026-01-01T00:00:00Z. */
  readonly now?: Date | string
}

export interface EnqueuedRun {
  readonly id: string
  readonly job: string
  readonly input: unknown
  readonly queue: string
  readonly priority: number
  /** When the next attempt is due, or the last one was. */
  readonly dueAt: Date
  readonly state: 'pending' | 'succeeded' | 'failed' | 'canceled'
  readonly attempts: number
  readonly results: readonly InlineResult[]
}

export interface InlineResult {
  readonly attempt: number
  readonly answer: FunctionAnswer
  readonly progress: JsonValue | undefined
  readonly log: readonly Omit<LogLine, 'at'>[]
}

export interface InlineBelfry {
  readonly clock: {
    now(): Date
    set(now: Date | string): void
    advance(ms: number): void
  }
  /** As the real one's: the input is checked. */
  enqueue<Input>(job: Job<Input, unknown>, input?: Input, options?: EnqueueOptions): Promise<EnqueuedRun>
  /** Runs what is due, in order, until nothing is; also what that enqueues. Answers what ran. */
  runDue(): Promise<readonly EnqueuedRun[]>
  /** Runs one job at once, beside everything that waits. Throws what the run failed with. */
  run<Input, Result>(job: Job<Input, Result>, input?: Input): Promise<Result>
  runs(): readonly EnqueuedRun[]
}

/** Attempts in one `runDue`: a job that enqueues itself for ever should end its test, not hang it. */
const maxAttempts = 10_000

type Mutable = { -readonly [Key in keyof EnqueuedRun]: EnqueuedRun[Key] } & { results: InlineResult[] }

export function createInlineBelfry(options: InlineOptions): InlineBelfry {
  const jobs = new Map(options.jobs.map((job) => [job.name, job]))
  const all: Mutable[] = []
  let nowMs = new Date(options.now ?? '2026-01-01T00:00:00Z').getTime()
  let lastId = 0

  function nextId(): string {
    lastId++
    return `00000000-0000-7000-8000-${lastId.toString(16).padStart(12, '0')}`
  }

  async function attempt(run: Mutable): Promise<void> {
    const job = jobs.get(run.job)
    if (job === undefined)
      throw new Error(`No job "${run.job}" was given to this inline Belfry; add it to \`jobs\`.`)
    run.attempts++
    const result = await callInline(job, run, nowMs)
    run.results.push(result)
    settle(run, result.answer, job, nowMs)
  }

  return {
    clock: {
      now: () => new Date(nowMs),
      set: (now) => void (nowMs = new Date(now).getTime()),
      advance: (ms) => void (nowMs += ms),
    },
    async enqueue(job, input, enqueueOptions) {
      const { body } = await enqueueRequest(job, input, enqueueOptions)
      const dueMs = body.runAt === undefined ? nowMs : Math.max(nowMs, Date.parse(body.runAt))
      const run: Mutable = {
        id: nextId(),
        job: job.name,
        input: asJson(body.input),
        queue: body.queue ?? queueOf(job),
        priority: body.priority ?? job.registration.priority ?? 0,
        dueAt: new Date(dueMs),
        state: 'pending',
        attempts: 0,
        results: [],
      }
      all.push(run)
      return run
    },
    async runDue() {
      const ran = new Set<Mutable>()
      for (let count = 0; count < maxAttempts; count++) {
        const next = firstDue(all, nowMs)
        if (next === undefined) return [...ran]
        await attempt(next)
        ran.add(next)
      }
      throw new Error(`After ${maxAttempts} attempts something is still due; does a job enqueue itself?`)
    },
    async run<Input, Result>(job: Job<Input, Result>, input?: Input): Promise<Result> {
      await enqueueRequest(job, input)
      const once = { id: nextId(), attempts: 1, input: asJson(input) }
      const { answer } = await callInline(job, once, nowMs)
      if (answer.outcome === 'succeeded') return answer.result as Result
      throw Object.assign(new Error(answer.error.message), {
        code: answer.error.code,
        outcome: answer.outcome,
      })
    },
    runs: () => all,
  }
}

/** Through JSON once, as on its way to a worker. */
const asJson = (value: unknown): unknown =>
  value === undefined ? null : (JSON.parse(JSON.stringify(value)) as unknown)

function firstDue(runs: readonly Mutable[], nowMs: number): Mutable | undefined {
  return runs
    .filter(({ state, dueAt }) => state === 'pending' && dueAt.getTime() <= nowMs)
    .toSorted((a, b) => a.dueAt.getTime() - b.dueAt.getTime() || b.priority - a.priority)[0]
}

async function callInline(
  job: AnyJob,
  run: { readonly id: string; readonly attempts: number; readonly input: unknown },
  nowMs: number,
): Promise<InlineResult> {
  const log: Omit<LogLine, 'at'>[] = []
  let progress: JsonValue | undefined
  const at =
    (level: LogLine['level']) =>
    (message: string, fields?: Readonly<Record<string, unknown>>): void => {
      log.push({ level, message, ...(fields === undefined ? {} : { fields: asJson(fields) as JsonValue }) })
    }
  const answer = await runFunction(job, run.input, {
    runId: run.id,
    idempotencyKey: run.id,
    attempt: run.attempts,
    leaseEpoch: run.attempts,
    scheduledFor: new Date(nowMs),
    traceparent: `00-${run.id.replaceAll('-', '')}-0000000000000001-01`,
    signal: new AbortController().signal,
    log: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') },
    heartbeat: (word) => {
      progress = word
    },
  })
  return { attempt: run.attempts, answer, progress, log }
}

function settle(run: Mutable, answer: FunctionAnswer, job: AnyJob, nowMs: number): void {
  if (answer.outcome !== 'failed') {
    run.state = answer.outcome
    return
  }
  const policy = retryPolicySchema.parse(job.registration.retry ?? {})
  if (!answer.retryable || run.attempts >= policy.maxAttempts) {
    run.state = 'failed'
    return
  }
  const grown = policy.backoff === 'fixed' ? 1 : 2 ** Math.min(run.attempts - 1, 50)
  const delayMs = Math.min(policy.capMs, policy.baseMs * grown)
  run.dueAt = new Date(nowMs + Math.max(delayMs, answer.retryAfterMs ?? 0))
}
