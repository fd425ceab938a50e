/**
 * What the end of a container says of its attempt. Pure.
 *
 *   0                        succeeded, with its result where that is one
 *   skippedExitCode          skipped: there was nothing to do
 *   one of noRetryExitCodes  failed for good
 *   another                  failed as `exit_<code>`, tried again as the retry policy says
 *   137, not by Belfry       failed: most likely out of memory; Podman does not say so, Docker does
 */
import type { ContainerHandlerDefinition, JsonValue, RunError } from '@belfry/contract'
import { maxResultBytes, resultFault } from '@belfry/contract'

export interface Exit {
  readonly exitCode: number
  readonly outOfMemory: boolean
  /** Belfry stopped it. */
  readonly stopped: boolean
}

/** What it left: text, or why there is none. */
export type Answer = { readonly text: string } | { readonly fault: 'none' | 'too_large' }

export type ExitVerdict =
  | { readonly outcome: 'succeeded'; readonly result: JsonValue | undefined }
  | { readonly outcome: 'skipped'; readonly error: RunError }
  | { readonly outcome: 'failed'; readonly error: RunError; readonly retryable: boolean }

type Rules = Pick<
  ContainerHandlerDefinition,
  'result' | 'noRetryExitCodes' | 'skippedExitCode' | 'limits' | 'stopGraceMs'
>

const killed = 137

export function judgeExit(exit: Exit, answer: Answer, rules: Rules): ExitVerdict {
  const { exitCode } = exit
  if (exit.stopped)
    return failed('container_stopped', `the container was stopped (exit code ${exitCode})`, true)
  if (exitCode === 0) return judgeAnswer(answer, rules)
  if (exit.outOfMemory || exitCode === killed) return outOfMemory(exit, rules)
  if (exitCode === rules.skippedExitCode) {
    const message = `the container had nothing to do (exit code ${exitCode})`
    return { outcome: 'skipped', error: { code: `exit_${exitCode}`, message } }
  }
  const isFinal = rules.noRetryExitCodes.includes(exitCode)
  const more = isFinal ? '; this code says that another attempt cannot help' : ''
  return failed(`exit_${exitCode}`, `the container ended with the exit code ${exitCode}${more}`, !isFinal)
}

function outOfMemory({ outOfMemory: isSaid }: Exit, { limits }: Rules): ExitVerdict {
  const why = isSaid ? 'it ran out of memory' : 'most likely it ran out of memory'
  const fix = `raise limits.memoryMb, which is ${limits.memoryMb}, or use less`
  const message = `the container was killed: ${why}; ${fix}`
  return failed('container_out_of_memory', message, true)
}

function judgeAnswer(answer: Answer, { result }: Rules): ExitVerdict {
  if (result === 'none') return { outcome: 'succeeded', result: undefined }
  if ('fault' in answer) {
    // what it prints is first of all for people: a last line that is no result is no fault
    if (answer.fault === 'none' || result === 'last_line') return { outcome: 'succeeded', result: undefined }
    return failed(
      'result_invalid',
      `the result file is larger than ${maxResultBytes} bytes; write less`,
      false,
    )
  }
  if (answer.text.trim() === '') return { outcome: 'succeeded', result: undefined }
  const parsed = parse(answer.text)
  const fault = parsed === undefined ? 'is not JSON' : resultFault(parsed.value)
  if (parsed !== undefined && fault === undefined)
    return { outcome: 'succeeded', result: parsed.value as JsonValue }
  if (result === 'last_line') return { outcome: 'succeeded', result: undefined }
  return failed(
    'result_invalid',
    `the result file cannot be kept: it ${fault ?? 'is no JSON'}; write JSON`,
    false,
  )
}

function parse(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return undefined
  }
}

const failed = (code: string, message: string, retryable: boolean): ExitVerdict => ({
  outcome: 'failed',
  retryable,
  error: { code, message },
})
