/**
 * Takes the secrets that a function was given out of all that it sends back: its log, its progress, its
 * result and its errors. Without secrets everything passes as it is.
 */
import type { JsonValue, LogLine } from '@belfry/contract'
import { maskJson, maskText } from '@belfry/contract/stream-mask'
import type { FunctionAnswer } from './run-function.ts'

export interface Masking {
  readonly line: (line: LogLine) => LogLine
  readonly json: (value: JsonValue) => JsonValue
  readonly answer: (answer: FunctionAnswer) => FunctionAnswer
}

const nothing: Masking = { line: (line) => line, json: (value) => value, answer: (answer) => answer }

export function maskingOf(secrets: Readonly<Record<string, string>> | undefined): Masking {
  if (secrets === undefined) return nothing
  const values = Object.values(secrets)
  if (values.length === 0) return nothing
  return {
    line: ({ message, fields, ...line }) => ({
      ...line,
      message: maskText(message, values),
      ...(fields === undefined ? {} : { fields: maskJson(fields, values) }),
    }),
    json: (value) => maskJson(value, values),
    answer(answer) {
      if (answer.outcome !== 'succeeded') {
        const { code, message } = answer.error
        return { ...answer, error: { code: maskText(code, values), message: maskText(message, values) } }
      }
      return answer.result === undefined ? answer : { ...answer, result: maskJson(answer.result, values) }
    },
  }
}
