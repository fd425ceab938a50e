/**
 * Which claims of a session are over: all of their runs have ended, or were given back. The next claim says
 * so (RunQueue.claim), and the database need not remember what they took. What is not told, because an answer
 * was lost, say, is settled by the rescuer.
 */
import type { ClaimedRun } from '../ports/run-queue.ts'

interface OpenClaim {
  held: number
  started: boolean
}

export interface ClaimBook {
  /** Opens the next claim of the session: its number, and those that are over since the last call. */
  readonly open: (sessionId: string) => { readonly number: number; readonly overNumbers: readonly number[] }
  /** All that it took is held here, or was given back. */
  readonly started: (number: number) => void
  readonly take: (run: ClaimedRun) => void
  readonly leave: (run: ClaimedRun) => void
  /** It stays held in the database, though nobody here will end it. */
  readonly drop: (run: ClaimedRun) => void
}

export function createClaimBook(): ClaimBook {
  const claims = new Map<number, OpenClaim>()
  let ofSession: string | undefined
  let last = 0

  function add(run: ClaimedRun, count: number): void {
    const claim = claims.get(run.claim)
    if (claim !== undefined) claim.held += count
  }

  return {
    open(sessionId) {
      if (sessionId !== ofSession) claims.clear()
      ofSession = sessionId
      const over = [...claims].filter(([, { held, started }]) => started && held === 0)
      const overNumbers = over.map(([number]) => number)
      for (const number of overNumbers) claims.delete(number)
      claims.set(++last, { held: 0, started: false })
      return { number: last, overNumbers }
    },
    started(number) {
      const claim = claims.get(number)
      if (claim !== undefined) claim.started = true
    },
    take: (run) => add(run, 1),
    leave: (run) => add(run, -1),
    drop: (run) => void claims.delete(run.claim),
  }
}
