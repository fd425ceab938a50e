// A rescuer on a test database, with what it says recorded, and runs for it: claimed under a session that
// then runs out. For the tests of what it ends (rescue.test.ts) and how it loops (rescuer-service.test.ts).
import { createRescuer, type Rescuer } from '../../packages/server/src/engine/rescuer.ts'
import type { ClaimedRun } from '../../packages/server/src/ports/run-queue.ts'
import type { RunStore } from '../../packages/server/src/ports/run-store.ts'
import { realClock } from './real-clock.ts'
import {
  recordEvents,
  recordHints,
  type RecordedEvents,
  type RecordedHints,
  type RunningFixture,
  type TestJob,
} from './running.ts'

export type RescueRig = {
  readonly rescuer: (
    store?: RunStore,
    pageSize?: number,
  ) => Rescuer & { readonly events: RecordedEvents; readonly hints: RecordedHints }
  readonly claim: (sessionId: string, from: TestJob, limit?: number) => Promise<readonly ClaimedRun[]>
  readonly expire: (sessionId: string) => Promise<unknown>
  /** A run that was claimed under a session that then ran out. */
  readonly lostRun: (from: TestJob) => Promise<ClaimedRun>
}

export function rescueRig(fixture: () => RunningFixture): RescueRig {
  async function claim(sessionId: string, from: TestJob, limit = 1): Promise<readonly ClaimedRun[]> {
    const shares = [{ queue: from.definition.queue, minTag: -Infinity, limit }]
    const { runs } = await fixture().queue.claim({
      sessionId,
      shares,
      routes: ['http'],
      deadlineMarginMs: 60_000,
    })
    return runs
  }

  const expire = (sessionId: string) =>
    fixture().database.sql('UPDATE belfry.session SET expires_at = now() WHERE id = $1', [sessionId])

  return {
    claim,
    expire,
    rescuer(store = fixture().store, pageSize = 500) {
      const events = recordEvents()
      const hints = recordHints()
      const service = createRescuer({
        store,
        overdueRuns: fixture().overdueRuns,
        hints,
        clock: realClock,
        random: { next: () => 0.5 },
        events,
        pageSize,
      })
      return { ...service, events, hints }
    },
    async lostRun(from) {
      await fixture().addRuns(from, 1)
      const sessionId = await fixture().openSession()
      const [run] = await claim(sessionId, from)
      if (run === undefined) throw new Error('nothing was claimed')
      await expire(sessionId)
      return run
    },
  }
}
