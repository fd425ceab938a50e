// The reconciler: what the index beside Postgres missed is found, also behind a backlog that it knows, in
// rounds that are bounded; and counted, and told to the scheduler.
import { expect, test } from 'vitest'
import { createReconciler } from '../../packages/server/src/engine/reconciler.ts'
import type { DueTimer } from '../../packages/server/src/ports/timer-index.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { newId, recordEvents, recordHints } from '../support/running.ts'

function timerOf(place: number): DueTimer {
  const [id, tenantId] = [newId(), newId()]
  return { kind: 'schedule', id, tenantId, shard: place % 4, dueAtMs: place, scheduledForMs: place, gen: 1 }
}

/** Postgres with pages of one timer each, and an index that knows all of them but the last. */
function rigOf(count: number) {
  const timers = Array.from({ length: count }, (_, place) => timerOf(place))
  const missing = new Set([timers.at(-1)?.id])
  const scans: (string | null)[] = []
  const events = recordEvents()
  const hints = recordHints()
  const reconciler = createReconciler({
    clock: realClock,
    random: realRandom,
    events,
    hints,
    elector: { heldShards: () => [0, 1, 2, 3].map((shard) => ({ shard, term: 1 })) },
    truth: {
      async scan({ cursor }) {
        scans.push(cursor)
        const place = Number(cursor ?? 0)
        const next = place + 1 < count ? String(place + 1) : null
        return { timers: timers.slice(place, place + 1), cursor: next, nowMs: 0 }
      },
    },
    index: {
      mend: (overdue) => Promise.resolve(overdue.filter(({ id }) => missing.delete(id))),
    },
  })
  return { reconciler, scans, events, hints }
}

test('finds what was missed behind a backlog that is known', async () => {
  const { reconciler, events, hints } = rigOf(10)
  expect(await reconciler.runOnce()).toBe(1)
  expect(events.of('timers_missed')).toEqual([{ count: 1 }])
  expect(hints.published).toEqual([{ topic: 'timers', key: '1' }])
  expect(await reconciler.runOnce()).toBe(0)
})

test('goes on in the next round where a backlog is longer than a round', async () => {
  const { reconciler, scans } = rigOf(50)
  expect(await reconciler.runOnce()).toBe(0)
  const ofOneRound = scans.length
  expect(ofOneRound).toBeLessThan(50)
  expect(await reconciler.runOnce()).toBe(0)
  expect(scans[ofOneRound]).toBe(String(ofOneRound))
  expect(await reconciler.runOnce()).toBe(1)
})
