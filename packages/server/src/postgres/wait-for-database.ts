/**
 * Waits until the database answers, at the start of a process: with words at each attempt, full-jitter
 * backoff and a deadline. Faults that waiting cannot heal (wrong password, no such database) end it at
 * once.
 */
import { BelfryError } from '@belfry/contract'
import type { Clock } from '../ports/clock.ts'
import type { Random } from '../ports/random.ts'
import type { Database } from './database.ts'
import { refusesLogin } from './database-error.ts'
import type { ConnectionOptions } from './hosts.ts'
import { describeTarget } from './hosts.ts'

export type WaitOptions = {
  readonly db: Database
  /** Only to say in words where it tried. */
  readonly connection: ConnectionOptions
  readonly clock: Clock
  readonly random: Random
  readonly deadlineMs: number
  readonly signal?: AbortSignal | undefined
  /** Called after each failure with a sentence for people; it never holds the password. */
  readonly onAttempt?: ((attempt: { readonly number: number; readonly message: string }) => void) | undefined
}

const firstBackoffMs = 200
const maxBackoffMs = 5_000

/**
 * Resolves when the database answers. Throws BelfryError `database_unavailable`, `invalid_config` or
 * `shutting_down`.
 */
export async function waitForDatabase(options: WaitOptions): Promise<void> {
  const { db, clock, signal } = options
  const target = describeTarget(options.connection)
  const startedAt = clock.monotonicMs()
  for (let number = 1; ; number += 1) {
    const fault = await db.ping().then(
      () => undefined,
      (error: unknown) => error,
    )
    if (fault === undefined) return
    const reason = reasonOf(fault)
    if (!(fault instanceof BelfryError) || refusesLogin(fault.cause)) {
      const message = `${target} refuses Belfry: ${reason}. Check DATABASE_URL (user, password, name).`
      throw new BelfryError('invalid_config', message, { cause: fault })
    }
    const waitedMs = clock.monotonicMs() - startedAt
    if (waitedMs >= options.deadlineMs) {
      const seconds = Math.round(waitedMs / 1000)
      const message = `${target} did not answer for ${seconds} s (${reason}). Is DATABASE_URL right?`
      throw new BelfryError('database_unavailable', message, { cause: fault })
    }
    options.onAttempt?.({ number, message: `${target} does not answer (${reason}); trying again.` })
    const limitMs = Math.min(maxBackoffMs, firstBackoffMs * 2 ** Math.min(number - 1, 10))
    const pauseMs = limitMs * (0.5 + options.random.next() / 2)
    await clock.sleep(Math.min(pauseMs, options.deadlineMs - waitedMs), signal)
    if (signal?.aborted === true)
      throw new BelfryError('shutting_down', 'Stopped while waiting for the database.')
  }
}

function reasonOf(error: unknown): string {
  const cause = error instanceof BelfryError ? error.cause : error
  if (cause instanceof AggregateError) return cause.errors.map(reasonOf).join(', ')
  return cause instanceof Error ? cause.message : String(cause)
}
