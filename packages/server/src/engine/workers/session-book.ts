/**
 * Whose session is which. A session never changes hands, so what was looked up once is known for as long as
 * the session lives; a call with somebody else's session is answered as if there were none.
 */
import { BelfryError } from '@belfry/contract'
import type { SessionFacts, WorkerStore } from '../../ports/worker-store.ts'

const maxSessions = 10_000

/** Who calls: a key of a tenant, with the queues that it may serve (null: every one). */
export interface WorkerOwner {
  readonly tenantId: string
  readonly keyId: string
  readonly queues: readonly string[] | null
}

export interface SessionBook {
  enter(sessionId: string, facts: SessionFacts): void
  /** Throws `session_lost` where the caller has no such session. */
  of(owner: WorkerOwner, sessionId: string): Promise<SessionFacts>
  /** The store said that it has ended. */
  strike(sessionId: string): void
}

export function createSessionBook(store: Pick<WorkerStore, 'findSession'>): SessionBook {
  const known = new Map<string, SessionFacts>()

  function enter(sessionId: string, facts: SessionFacts): void {
    known.delete(sessionId)
    known.set(sessionId, facts)
    const oldest = known.keys().next()
    if (known.size > maxSessions && oldest.done !== true) known.delete(oldest.value)
  }

  return {
    enter,
    async of(owner, sessionId) {
      const facts = known.get(sessionId) ?? (await store.findSession(sessionId))
      if (facts === undefined || facts.tenantId !== owner.tenantId || facts.keyId !== owner.keyId)
        throw sessionLost()
      enter(sessionId, facts)
      return facts
    },
    strike: (sessionId) => void known.delete(sessionId),
  }
}

export function sessionLost(): BelfryError {
  return new BelfryError(
    'session_lost',
    'There is no such session of this key any more: what it held was given to others. Open a new one.',
  )
}
