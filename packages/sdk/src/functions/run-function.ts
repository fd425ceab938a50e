/**
 * One call of a function, from what was claimed to what is reported: input checked, function called, result
 * checked and made JSON, whatever is thrown turned into an outcome. Never rejects. Timeouts and signals are
 * the caller's.
 */
import type { JsonValue } from '@belfry/contract'
import { resultFault } from '@belfry/contract'
import { unsayableWords } from '../check-input.ts'
import type { AnyJob, JobContext } from './define-job.ts'
import { OutcomeSignal } from './outcomes.ts'
import { checkAgainst, faultWords, type SchemaFault } from './standard-schema.ts'

const maxMessage = 4_000

export interface FunctionError {
  readonly code: string
  readonly message: string
}

export type FunctionAnswer =
  | { readonly outcome: 'succeeded'; readonly result?: JsonValue }
  | {
      readonly outcome: 'failed'
      readonly error: FunctionError
      readonly retryable: boolean
      readonly retryAfterMs?: number
    }
  | { readonly outcome: 'canceled' | 'skipped'; readonly error: FunctionError }

export async function runFunction(job: AnyJob, input: unknown, context: JobContext): Promise<FunctionAnswer> {
  try {
    // a wait for nothing costs as much as all else here
    const checked = takesAnything(job) ? { value: input } : await checkRunInput(job, input)
    if ('faults' in checked)
      return permanent('invalid_input', `The input does not fit the schema: ${faultWords(checked.faults)}`)
    const returned = await job.run(checked.value, context)
    if (returned === undefined && job.output === undefined) return { outcome: 'succeeded' }
    return await answerOf(job, returned)
  } catch (thrown) {
    return answerOfThrown(thrown)
  }
}

const takesAnything = (job: AnyJob): boolean =>
  job.input === undefined && (job.registration.collect ?? null) === null

/** The input of a job that collects is a list, of which each item must fit. */
async function checkRunInput(job: AnyJob, input: unknown): ReturnType<typeof checkAgainst> {
  if ((job.registration.collect ?? null) === null) return checkAgainst(job.input, input)
  if (!Array.isArray(input)) return { faults: [{ pointer: '', message: 'is not a list; the job collects' }] }
  const values: unknown[] = []
  for (const [index, item] of input.entries()) {
    const checked = await checkAgainst(job.input, item)
    if ('faults' in checked) {
      const at = ({ pointer, message }: SchemaFault) => ({ pointer: `/${index}${pointer}`, message })
      return { faults: checked.faults.map(at) }
    }
    values.push(checked.value)
  }
  return { value: values }
}

async function answerOf(job: AnyJob, returned: unknown): Promise<FunctionAnswer> {
  const checked = await checkAgainst(job.output, returned)
  if ('faults' in checked)
    return permanent('invalid_result', `The result does not fit the schema: ${faultWords(checked.faults)}`)
  if (checked.value === undefined) return { outcome: 'succeeded' }
  const unsayable = unsayableWords(checked.value)
  if (unsayable !== undefined) return permanent('invalid_result', `The result ${unsayable}`)
  const text = jsonOf(checked.value)
  if (text === undefined)
    return permanent('invalid_result', 'The result is not JSON; answer plain data, or nothing')
  const result = JSON.parse(text) as JsonValue
  const fault = resultFault(result)
  if (fault === undefined) return { outcome: 'succeeded', result }
  const isLarge = fault.startsWith('must be at most')
  return permanent(isLarge ? 'result_too_large' : 'invalid_result', `The result ${fault}`)
}

function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value)
  } catch {
    return undefined
  }
}

function answerOfThrown(thrown: unknown): FunctionAnswer {
  if (!(thrown instanceof OutcomeSignal))
    return { outcome: 'failed', error: errorOf(thrown), retryable: true }
  const { asked } = thrown
  switch (asked.kind) {
    case 'fail':
      return { outcome: 'failed', error: errorOf(asked.error), retryable: false }
    case 'retry_after':
      return {
        outcome: 'failed',
        error: errorOf(asked.error),
        retryable: true,
        retryAfterMs: delayOf(asked.delayMs),
      }
    case 'cancel':
      return { outcome: 'canceled', error: { code: 'canceled', message: tidy(asked.message) } }
    case 'skip':
      return { outcome: 'skipped', error: { code: 'skipped', message: tidy(asked.message) } }
    default:
      return asked satisfies never
  }
}

/** At most a day, as the server takes it. */
const delayOf = (delayMs: number): number => Math.ceil(Math.min(delayMs, 86_400_000))

const permanent = (code: string, message: string): FunctionAnswer => ({
  outcome: 'failed',
  error: { code, message: tidy(message) },
  retryable: false,
})

/** What is kept of a thrown value: a code, where it has one that fits, and its words. */
export function errorOf(thrown: unknown): FunctionError {
  if (!(thrown instanceof Error)) return { code: 'function_error', message: tidy(String(thrown)) }
  const { code } = thrown as { code?: unknown }
  const known = typeof code === 'string' && /^[\w.:-]{1,64}$/.test(code) ? code : 'function_error'
  const name = thrown.name === 'Error' || thrown.name === '' ? '' : `${thrown.name}: `
  return { code: known, message: tidy(`${name}${thrown.message}`) }
}

/** Text as the server keeps it: no NUL, no halves of characters, not too long. */
export function tidy(text: string): string {
  const clean = text.replaceAll('\u0000', '\uFFFD').toWellFormed()
  return clean.length <= maxMessage ? clean : `${clean.slice(0, maxMessage - 1)}…`.toWellFormed()
}
