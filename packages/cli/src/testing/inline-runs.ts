/**
 * The runs of an inline Belfry, in the order in which they were asked for: requests taken in, what is due
 * found, attempts made. Time is handed in; the clock is inline-belfry.ts's.
 */
import type { JsonValue, RunCreate } from '@belfry/contract'
import type { AnyJob } from '@belfry/sdk'
import { queueOf } from '@belfry/sdk/functions'
import type { EnqueuedRun, InlineResult, InlineRun } from './inline-attempt.ts'
import { asJson, callInline, limitsOf, overdueReason, settle } from './inline-attempt.ts'
import { createInlineRequests } from './inline-requests.ts'

export interface InlineRuns {
  readonly all: readonly InlineRun[]
  /** A request, as the server takes it in: a duplicate, one more input of a run that gathers, or a run. */
  take(job: AnyJob, body: RunCreate, nowMs: number): EnqueuedRun
  /** The one whose turn it is; undefined where nothing is due. */
  firstDue(nowMs: number): InlineRun | undefined
  /** One attempt, or the end of a run whose time is over. */
  attempt(run: InlineRun, nowMs: number): Promise<void>
  /** Calls the function of a job at once, for a run that is not kept. */
  callOnce(job: AnyJob, input: unknown, nowMs: number): Promise<InlineResult>
}

export function createInlineRuns(given: readonly AnyJob[]): InlineRuns {
  const jobs = new Map(given.map((job) => [job.name, job]))
  const all: InlineRun[] = []
  const requests = createInlineRequests<InlineRun>()
  let lastId = 0

  function nextId(): string {
    lastId++
    return `00000000-0000-7000-8000-${lastId.toString(16).padStart(12, '0')}`
  }

  function make(job: AnyJob, body: RunCreate, dueMs: number): InlineRun {
    const run: InlineRun = {
      id: nextId(),
      job: job.name,
      input: asJson(body.input),
      queue: body.queue ?? queueOf(job),
      priority: body.priority ?? job.registration.priority ?? 0,
      dueAt: new Date(dueMs),
      state: 'pending',
      attempts: 0,
      results: [],
      duplicate: false,
      duplicateOf: null,
      gathered: null,
      limits: limitsOf(job, body, dueMs),
    }
    all.push(run)
    return run
  }

  return {
    all,
    take(job, body, nowMs) {
      const askedMs = body.runAt === undefined ? nowMs : Math.max(nowMs, Date.parse(body.runAt))
      return requests.take(job, { ...body, input: asJson(body.input) as JsonValue }, nowMs, (dueMs) =>
        make(job, body, dueMs ?? askedMs),
      )
    },
    firstDue: (nowMs) => firstDue(all, nowMs),
    async attempt(run, nowMs) {
      const job = jobs.get(run.job)
      if (job === undefined)
        throw new Error(`No job "${run.job}" was given to this inline Belfry; add it to \`jobs\`.`)
      const reason = overdueReason(run, nowMs)
      if (reason !== undefined) {
        Object.assign(run, { state: 'failed', reason })
        return
      }
      run.attempts++
      const result = await callInline(job, run, nowMs)
      run.results.push(result)
      settle(run, result.answer, job, nowMs)
    },
    callOnce: (job, input, nowMs) =>
      callInline(
        job,
        { id: nextId(), attempts: 1, input: asRunInput(job, input), limits: limitsOf(job, {}, nowMs) },
        nowMs,
      ),
  }
}

/** What the function would be called with: a job that collects gets a list. */
const asRunInput = (job: AnyJob, input: unknown): unknown =>
  (job.registration.collect ?? null) === null ? asJson(input) : [asJson(input)]

function firstDue(runs: readonly InlineRun[], nowMs: number): InlineRun | undefined {
  return runs
    .filter(({ state, dueAt }) => state === 'pending' && dueAt.getTime() <= nowMs)
    .toSorted((a, b) => a.dueAt.getTime() - b.dueAt.getTime() || b.priority - a.priority)[0]
}
