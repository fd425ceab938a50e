/**
 * What `ctx.heartbeat` takes, checked at the call: whoever reports hears at once that a word cannot be kept,
 * and no other run of the worker hears of it.
 */
import type { JsonValue } from '@belfry/contract'
import { BelfryError, maxProgressBytes, resultFault, utf8Bytes } from '@belfry/contract'

/** The word as JSON. Throws `invalid_request` with the pointer `/progress`. */
export function checkedProgress(given: unknown): JsonValue {
  const text = textOf(given)
  if (text === undefined) throw refusal('is not JSON; send plain data')
  const progress = JSON.parse(text) as JsonValue
  const fault = resultFault(progress)
  if (fault !== undefined && !fault.startsWith('must be at most')) throw refusal(fault)
  const bytes = utf8Bytes(text)
  if (bytes > maxProgressBytes)
    throw refusal(`is ${bytes} bytes of JSON, and must be at most ${maxProgressBytes}; say less`)
  const odd = oddPart(progress)
  if (odd !== undefined) throw refusal(odd)
  return progress
}

function textOf(given: unknown): string | undefined {
  try {
    return JSON.stringify(given)
  } catch {
    return undefined
  }
}

/** What is JSON, and yet nothing that a server takes. */
function oddPart(value: JsonValue): string | undefined {
  if (typeof value === 'number') {
    const isRounded = /^-?\d+$/.test(String(value)) && !Number.isSafeInteger(value)
    return isRounded ? 'has a whole number beyond 2^53, which would be rounded; send it as a text' : undefined
  }
  if (typeof value !== 'object' || value === null) return undefined
  if (Object.hasOwn(value, '__proto__')) return 'has the key "__proto__"; choose another'
  for (const part of Object.values(value)) {
    const odd = oddPart(part)
    if (odd !== undefined) return odd
  }
  return undefined
}

const refusal = (message: string): BelfryError =>
  new BelfryError('invalid_request', `The progress cannot be kept: it ${message}.`, {
    errors: [{ pointer: '/progress', message }],
  })
