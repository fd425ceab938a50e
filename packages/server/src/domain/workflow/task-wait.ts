/**
 * Tasks that run no job: what one waits for, and how it ends by what comes, or by nothing. Pure; the engine
 * stores what is decided here, and the simulation plays by it.
 */
import type { EndedTaskState, JsonValue, rejectStates, timeoutStates, WorkflowTask } from '@belfry/contract'
import { latestInstantMs } from '@belfry/contract'
import { refuse, type Result, succeed } from '../zone/result.ts'
import { valueAt } from './condition.ts'
import type { InputFacts } from './task-input.ts'

/** How a task ends for which nothing came in time, or that was rejected. */
export interface WaitEnds {
  readonly onTimeout: (typeof timeoutStates)[number]
  readonly onReject: (typeof rejectStates)[number]
}

export interface PlannedWait {
  readonly kind: 'approval' | 'time' | 'signal'
  readonly message: string | null
  readonly signal: string | null
  /** Its end without anything that comes: a stretch from its start, or an instant; both null: none. */
  readonly dueInMs: number | null
  readonly dueAtMs: number | null
  readonly ends: WaitEnds
}

/** Undefined for a task that is no wait: a job, or another workflow. */
export function waitEndsOf({ approval, wait }: WorkflowTask): WaitEnds | undefined {
  if (approval !== undefined) return { onTimeout: approval.onTimeout, onReject: approval.onReject }
  if (wait === undefined) return undefined
  return { onTimeout: 'signal' in wait ? wait.onTimeout : 'succeeded', onReject: 'failed' }
}

/** What a task waits for that starts now. `item` is undefined for a task that is not mapped. */
export function waitOfTask(
  task: WorkflowTask,
  facts: InputFacts,
  item: JsonValue | undefined,
): Result<PlannedWait | undefined, string> {
  const ends = waitEndsOf(task)
  if (ends === undefined) return succeed(undefined)
  const none = { message: null, signal: null, dueInMs: null, dueAtMs: null, ends }
  const { approval, wait } = task
  if (approval !== undefined) {
    const { message, atMostMs = null } = approval
    return succeed({ ...none, kind: 'approval', message, dueInMs: atMostMs })
  }
  if (wait === undefined) return succeed(undefined)
  if ('signal' in wait)
    return succeed({ ...none, kind: 'signal', signal: wait.signal, dueInMs: wait.atMostMs ?? null })
  if ('forMs' in wait) return succeed({ ...none, kind: 'time', dueInMs: wait.forMs })
  const dueAtMs = instantOf(wait.until, facts, item)
  return dueAtMs.ok ? succeed({ ...none, kind: 'time', dueAtMs: dueAtMs.value }) : dueAtMs
}

/** Until when a task waits; undefined: it does no such thing. */
export const untilOf = ({ wait }: WorkflowTask): Until | undefined =>
  wait !== undefined && 'until' in wait ? wait.until : undefined

type Until = Extract<NonNullable<WorkflowTask['wait']>, { until: unknown }>['until']

const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)$/i

function instantOf(until: Until, facts: InputFacts, item: JsonValue | undefined): Result<number, string> {
  const value = untilValue(until, facts, item)
  const atMs = typeof value === 'string' && instant.test(value) ? Date.parse(value) : Number.NaN
  if (atMs <= latestInstantMs) return succeed(atMs)
  const what = value === undefined ? 'there is nothing' : 'what there is is no such instant'
  return refuse(`wait.until takes an instant like 2026-12-01T02:30:00Z, and ${what} at ${placeOf(until)}`)
}

function untilValue(until: Until, facts: InputFacts, item: JsonValue | undefined): JsonValue | undefined {
  if ('at' in until) return until.at
  if ('task' in until) return valueAt(facts.outputOf(until.task), until.path)
  return 'input' in until ? valueAt(facts.input, until.input) : valueAt(item, until.item)
}

function placeOf(until: Until): string {
  if ('at' in until) return 'wait.until.at'
  if ('task' in until) return `${until.path || 'the output'} of "${until.task}"`
  return 'input' in until
    ? `${until.input || 'the input'} of the run`
    : `${until.item || 'the value'} of the item`
}

/** What can come to a task that waits. */
export type WaitOutcome = 'approved' | 'rejected' | 'signaled' | 'due'

export function endOfWait(ends: WaitEnds, outcome: WaitOutcome): EndedTaskState {
  if (outcome === 'rejected') return ends.onReject
  return outcome === 'due' ? ends.onTimeout : 'succeeded'
}
