/**
 * Exit codes of the command line, and the error that means "called the wrong way". Codes are never given a
 * new meaning.
 */

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
