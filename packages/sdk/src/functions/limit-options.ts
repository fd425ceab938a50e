/**
 * Limits in the definition of a job: what is short to write, and what it stands for. What does not fit is
 * told by the check of the whole definition.
 */
import type { AtLimit, Concurrency, FunctionJob, RateLimit } from '@belfry/contract'

export type ConcurrencyOption = {
  readonly limit?: number | null
  readonly key?: string | null
  readonly keyLimit?: number
  readonly pools?: readonly { readonly name: string; readonly weight?: number }[]
  /** What becomes of a run that comes at the limit: it waits, it ends, or the ones before it end. */
  readonly onLimit?: AtLimit
}

export interface LimitOptions {
  /** Runs at once: of the job, of each key, in pools; a number alone is for the job. Null takes it away. */
  readonly concurrency?: number | ConcurrencyOption | null
  /** Field of the input, or a JSON pointer: runs with the same value there go one at a time. */
  readonly concurrencyKey?: string
  /** Starts in a stretch of time; null takes it away. */
  readonly rateLimit?: (Pick<RateLimit, 'count' | 'perMs'> & Partial<RateLimit>) | null
}

type Stored = Pick<FunctionJob, 'concurrency' | 'rateLimit'>

/** With the limits as the server stores them; what does not fit is told by the check of the whole. */
export function withLimits<T extends LimitOptions>(options: T): Omit<T, keyof LimitOptions> & Stored {
  const { concurrency, concurrencyKey, rateLimit, ...rest } = options
  const whole = typeof concurrency === 'number' ? { limit: concurrency } : concurrency
  const keyed = concurrencyKey === undefined ? whole : { ...whole, key: concurrencyKey }
  return {
    ...rest,
    ...(keyed === undefined ? {} : { concurrency: keyed as Concurrency | null }),
    ...(rateLimit === undefined ? {} : { rateLimit: rateLimit as RateLimit | null }),
  }
}
