/**
 * Which claims of a session are over: all of their runs have ended, or are back in the queue. The next claim
 * says so (RunQueue.claim), and the database forgets what they took; so one is over only when the database
 * has acknowledged all of that. What is not told, because an answer was lost, say, is settled by the rescuer.
 */
import type { ClaimedRun } from '../ports/run-queue.ts'

interface OpenClaim {
  held: number
  started: boolean
}

const isOver = ({ held, started }: OpenClaim): boolean => started && held === 0

export interface ClaimBook {
  /** Opens the next claim of the session: its number, and those that are over since the last call. */
  readonly open: (sessionId: string) => { readonly number: number; readonly overNumbers: readonly number[] }
  /** All that it took is held here, or was given back. */
  readonly started: (number: number) => void
  /** It took nothing, or nobody here knows what. */
  readonly forget: (number: number) => void
  readonly take: (run: ClaimedRun) => void
  readonly leave: (run: ClaimedRun) => void
  /** It stays held in the database, or may, though nobody here will end it. */
  readonly drop: (run: ClaimedRun) => void
}

export function createClaimBook(): ClaimBook {
  const claims = new Map<number, OpenClaim>()
  /** Numbers of claims that were over at some time since the last call. */
  let toTell: number[] = []
  let ofSession: string | undefined
  let last = 0

  function change(number: number, by: (claim: OpenClaim) => void): void {
    const claim = claims.get(number)
    if (claim === undefined) return
    by(claim)
    if (isOver(claim)) toTell.push(number)
  }

  /** A run that leaves the line of those that wait is taken again at once: so this is asked only now. */
  function over(): number[] {
    const numbers = toTell.filter((number) => {
      const claim = claims.get(number)
      return claim !== undefined && isOver(claim) && claims.delete(number)
    })
    toTell = []
    return numbers
  }

  return {
    open(sessionId) {
      if (sessionId !== ofSession) claims.clear()
      ofSession = sessionId
      const overNumbers = over()
      claims.set(++last, { held: 0, started: false })
      return { number: last, overNumbers }
    },
    started: (number) => change(number, (claim) => void (claim.started = true)),
    forget: (number) => void claims.delete(number),
    take: (run) => change(run.claim, (claim) => void claim.held++),
    leave: (run) => change(run.claim, (claim) => void claim.held--),
    drop: (run) => void claims.delete(run.claim),
  }
}
