/**
 * Asking for a run of a job that is defined in code: the input is checked here, so that what cannot run is
 * refused where it comes from.
 */
import type { RunCreate } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import { aFunction, anObject, checkArgument, checkOnlyOptions, isJob, text } from '../check-input.ts'
import type { CallOptions } from '../route-types.ts'
import type { AnyJob } from './define-job.ts'
import { checkAgainst, faultWords } from './standard-schema.ts'

export interface EnqueueOptions extends CallOptions {
  /** Not before; now if left out. */
  readonly runAt?: Date | string | undefined
  /** Instead of the job's. */
  readonly queue?: string | undefined
  readonly priority?: number | undefined
  /** The whole run must be over so long after it was due; null lifts the limit of the job. */
  readonly runDeadlineMs?: number | null | undefined
  /** Its first attempt must start so long after it was due; null lifts the limit of the job. */
  readonly startWithinMs?: number | null | undefined
  /** Ids of runs of any job that have to end first; those that have ended count as they ended. */
  readonly dependsOn?: readonly string[] | undefined
  /** How the runs of `dependsOn` have to end; `none_failed_min_one_success` if left out. */
  readonly rule?: RunCreate['rule']
  /** While a run of the job holds this key, no other is made: the answer is that run, and says so. */
  readonly dedupeKey?: string | undefined
  /** How long this run will hold the key; while it waits or runs if left out. */
  readonly dedupe?: RunCreate['dedupe']
}

/** The input may be left out where the job takes none. */
export type EnqueueArguments<Input> = undefined extends Input
  ? [input?: Input, options?: EnqueueOptions]
  : [input: Input, options?: EnqueueOptions]

export type EnqueueRequest = CallOptions & { readonly body: RunCreate }

const aJob = { what: 'a job made by defineJob', fits: isJob }
const aNumber = { what: 'a number', fits: Number.isFinite }
const aNumberOrNull = {
  what: 'a number of milliseconds, or null',
  fits: (value: unknown) => value === null || Number.isFinite(value),
}
const anInstant = {
  what: 'a valid Date, or an instant as a text',
  fits: (value: unknown) =>
    value instanceof Date ? Number.isFinite(value.getTime()) : typeof value === 'string',
}
const aListOfIds = {
  what: 'a list of ids of runs',
  fits: (value: unknown) => Array.isArray(value) && value.every((id) => typeof id === 'string'),
}
const aSignal = { what: 'an AbortSignal', fits: (value: unknown) => value instanceof AbortSignal }

const manyRules = {
  runAt: anInstant,
  queue: text,
  priority: aNumber,
  runDeadlineMs: aNumberOrNull,
  startWithinMs: aNumberOrNull,
  dependsOn: aListOfIds,
  rule: text,
  dedupeKey: aFunction,
  dedupe: anObject,
  signal: aSignal,
}
const oneRules = { ...manyRules, dedupeKey: text, idempotencyKey: text, ifMatch: text }

/** Throws `invalid_request` for options of `enqueueMany` that cannot be meant. */
export const checkManyOptions = (given: unknown): void => checkOnlyOptions('enqueueMany', given, manyRules)

/** Throws `invalid_request`, with pointers below `/input`. */
export async function enqueueRequest(
  job: AnyJob,
  input: unknown,
  options: EnqueueOptions = {},
): Promise<EnqueueRequest> {
  checkOnlyOptions('enqueue', options, oneRules)
  const request = enqueueBody(job, input, options)
  await checkedInput(job, input, '/input')
  return request
}

/** Throws `invalid_request` for an input that does not fit the job. */
export async function checkedInput(job: AnyJob, input: unknown, at: string): Promise<void> {
  const checked = await checkAgainst(job.input, input)
  if (!('faults' in checked)) return
  const errors = checked.faults.map(({ pointer, message }) => ({ pointer: `${at}${pointer}`, message }))
  const words = faultWords(checked.faults)
  throw new BelfryError('invalid_request', `The input does not fit the job "${job.name}": ${words}.`, {
    errors,
  })
}

/** The request of a run, whose input has yet to be checked. */
export function enqueueBody(job: AnyJob, input: unknown, options: EnqueueOptions): EnqueueRequest {
  const { runAt, queue, priority, runDeadlineMs, startWithinMs, dedupeKey, dedupe, ...other } = options
  const { dependsOn, rule, ...call } = other
  checkArgument('enqueue', '/job', job, aJob)
  // as it was given: the schema is applied once more before the run
  const body = {
    job: job.name,
    input: input as RunCreate['input'],
    runAt: runAt instanceof Date ? runAt.toISOString() : runAt,
    queue,
    priority,
    runDeadlineMs,
    startWithinMs,
    dependsOn: dependsOn === undefined ? undefined : [...dependsOn],
    rule,
    dedupeKey,
    dedupe,
  }
  return { ...call, body }
}
