/** Chance, for jitter in waits and backoff. Not for secrets. */

export interface Random {
  /** Uniform in [0, 1). */
  next(): number
}
