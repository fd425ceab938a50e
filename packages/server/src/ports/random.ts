/**
 * Chance, for jitter in waits and backoff, so that a simulation can repeat it. Not for secrets: those come
 * from node:crypto.
 */

export interface Random {
  /** Uniform in [0, 1). */
  next(): number
}
