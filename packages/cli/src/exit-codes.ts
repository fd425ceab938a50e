/**
 * Exit codes of the command line, and the error that means "called the wrong way". Codes are never given a
 * new meaning.
 */
import type { ErrorCode, ErrorDetail } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'

export const exitCodes = {
  ok: 0,
  failed: 1,
  usage: 2,
  auth: 4,
  runDidNotSucceed: 5,
  waitTimedOut: 6,
  interrupted: 130,
} as const

/** The command was called the wrong way; `message` says how, and the fix. */
export class UsageError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'UsageError'
  }
}

/** A value was refused on this machine, before any server was asked: exit code 2, with a pointer a fault. */
export class InputError extends BelfryError {
  constructor(code: ErrorCode, message: string, errors: readonly ErrorDetail[]) {
    super(code, message, { errors })
    this.name = 'InputError'
  }
}
