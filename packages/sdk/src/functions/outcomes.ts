/**
 * How a function ends other than by returning or by an ordinary error, which is tried again: each of these
 * throws, so whatever stands behind the call does not run. A `catch` in between must let them pass.
 */
import { aDuration, checkArgument } from '../check-input.ts'

/** How a function asked for its attempt to end. */
export type AskedOutcome =
  | { readonly kind: 'fail'; readonly error: unknown }
  | { readonly kind: 'retry_after'; readonly delayMs: number; readonly error: unknown }
  | { readonly kind: 'cancel'; readonly message: string }
  | { readonly kind: 'skip'; readonly message: string }

/** What the functions below throw. */
export class OutcomeSignal extends Error {
  readonly asked: AskedOutcome

  constructor(asked: AskedOutcome, message: string) {
    super(message)
    this.name = 'OutcomeSignal'
    this.asked = asked
  }
}

const wordsOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** Fails for good: another attempt could not help. */
export function fail(error: string | Error): never {
  throw new OutcomeSignal({ kind: 'fail', error }, wordsOf(error))
}

/**
 * Fails this attempt; the next one comes not before `delayMs`, at most a day, where the retry policy allows
 * one. Throws `invalid_request` for what is no time, which fails the attempt as an ordinary error does.
 */
export function retryAfter(
  delayMs: number,
  error: string | Error = 'The function asked to be tried later.',
): never {
  checkArgument('retryAfter', '/delayMs', delayMs, aDuration)
  throw new OutcomeSignal({ kind: 'retry_after', delayMs, error }, wordsOf(error))
}

/** Calls the run off: it ends as canceled, which is no failure. */
export function cancel(message = 'The function called its run off.'): never {
  throw new OutcomeSignal({ kind: 'cancel', message }, message)
}

/**
 * There is nothing to do: the run ends as skipped, which is neither a success nor a failure. In a workflow,
 * what depends on it goes by its rule.
 */
export function skip(message = 'The function had nothing to do.'): never {
  throw new OutcomeSignal({ kind: 'skip', message }, message)
}
