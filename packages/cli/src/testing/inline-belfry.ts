/**
 * A Belfry for unit tests: runs wait in memory until the test says so, functions run in the test's own
 * process, and time stands still until it is set. Schemas, outcomes and retries are those of the real one,
 * with full jitter taken as its upper end, so that a test knows when the next attempt is due. There is no
 * database, no concurrency and no lease here: for those there is `startThrowAwayBelfry`.
 */
import type { AnyJob, EnqueueManyOptions, EnqueueOptions, Job } from '@belfry/sdk'
import { enqueueRequest, manyRequest } from '@belfry/sdk/functions'
import type { EnqueuedRun } from './inline-attempt.ts'
import { createInlineRuns } from './inline-runs.ts'

export interface InlineOptions {
  readonly jobs: readonly AnyJob[]
  /** Where the clock stands. Default 2026-01-01T00:00:00Z. */
  readonly now?: Date | string
}

export interface InlineBelfry {
  readonly clock: {
    now(): Date
    set(now: Date | string): void
    advance(ms: number): void
  }
  /** As the real one's: the input is checked. */
  enqueue<Input>(job: Job<Input, unknown>, input?: Input, options?: EnqueueOptions): Promise<EnqueuedRun>
  enqueueMany<Input>(
    job: Job<Input, unknown>,
    inputs: readonly Input[],
    options?: EnqueueManyOptions<Input>,
  ): Promise<readonly EnqueuedRun[]>
  /** Runs what is due, in order, until nothing is; also what that enqueues. Answers what ran. */
  runDue(): Promise<readonly EnqueuedRun[]>
  /** Runs one job at once, beside everything that waits. Throws what the run failed with. */
  run<Input, Result>(job: Job<Input, Result>, input?: Input): Promise<Result>
  runs(): readonly EnqueuedRun[]
}

/** Attempts in one `runDue`: a job that enqueues itself for ever should end its test, not hang it. */
const maxAttempts = 10_000

export function createInlineBelfry(options: InlineOptions): InlineBelfry {
  const runs = createInlineRuns(options.jobs)
  let nowMs = new Date(options.now ?? '2026-01-01T00:00:00Z').getTime()

  return {
    clock: {
      now: () => new Date(nowMs),
      set: (now) => void (nowMs = new Date(now).getTime()),
      advance: (ms) => void (nowMs += ms),
    },
    async enqueue(job, input, enqueueOptions) {
      const { body } = await enqueueRequest(job, input, enqueueOptions)
      return runs.take(job, body, nowMs)
    },
    async enqueueMany(job, inputs, manyOptions) {
      const { body, inputs: given, dedupeKeys } = await manyRequest(job, inputs, manyOptions)
      return given.map((input, index) =>
        runs.take(job, { ...body, input, dedupeKey: dedupeKeys?.[index] }, nowMs),
      )
    },
    async runDue() {
      const ran = new Set<EnqueuedRun>()
      for (let count = 0; count < maxAttempts; count++) {
        const next = runs.firstDue(nowMs)
        if (next === undefined) return [...ran]
        await runs.attempt(next, nowMs)
        ran.add(next)
      }
      throw new Error(`After ${maxAttempts} attempts something is still due; does a job enqueue itself?`)
    },
    async run<Input, Result>(job: Job<Input, Result>, input?: Input): Promise<Result> {
      await enqueueRequest(job, input)
      const { answer } = await runs.callOnce(job, input, nowMs)
      if (answer.outcome === 'succeeded') return answer.result as Result
      throw Object.assign(new Error(answer.error.message), {
        code: answer.error.code,
        outcome: answer.outcome,
      })
    },
    runs: () => runs.all,
  }
}
