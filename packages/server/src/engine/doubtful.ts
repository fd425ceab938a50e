/**
 * For caches of what never changes: a standby that took over may lack the last commits, and with them
 * versions that were read here; the next change makes another version of the same number. The store counts
 * the moments after which that may be so (ports/run-store.ts).
 */

/**
 * Answers a function to be called before a look: it forgets what is in doubt, and answers whether what is
 * read in this look may be kept.
 */
export function createDoubtful(doubts: (() => number) | undefined, forget: () => void): () => () => boolean {
  let seen = doubts?.()
  return () => {
    const now = doubts?.()
    if (now !== seen) forget()
    seen = now
    return () => doubts?.() === now
  }
}
