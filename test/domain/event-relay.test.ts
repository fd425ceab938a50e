// The relay of events by a clock that the test moves: how often it looks, how much it asks for when looks are
// slow or fail, what its lag says while nothing can be sent, and what becomes of an event that is not taken.
import { expect, test } from 'vitest'
import type { EndedRecord } from '../../packages/server/src/domain/cloud-event.ts'
import { createEventRelay } from '../../packages/server/src/engine/event-relay.ts'
import {
  EventsRefused,
  type OutgoingEvents,
  type OutgoingPosition,
} from '../../packages/server/src/ports/outgoing-events.ts'
import { newId, recordEvents } from '../support/running.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const ended = (): EndedRecord => ({
  kind: 'run',
  data: {
    runId: newId(),
    tenantId: newId(),
    jobId: newId(),
    queue: 'default',
    source: 'manual',
    scheduleId: null,
    scheduledFor: null,
    workflowRunId: null,
    attempt: 1,
    outcome: 'succeeded',
    state: 'succeeded',
    reason: null,
    errorCode: null,
    startedAt: '2026-01-01T00:00:00.000Z',
    endedAt: '2026-01-01T00:00:01.000Z',
    retryAt: null,
  },
})

/** A record of one event a number, up to `state.latest`. */
function openRig() {
  const clock = createVirtualClock(0)
  const events = recordEvents()
  const looks: { readonly atMs: number; readonly stretch: number }[] = []
  const sent: string[] = []
  const records = new Map<number, EndedRecord>()
  const state = {
    latest: 0,
    slowMs: 0,
    fails: false,
    up: true,
    takes: (_ids: readonly string[]): void => undefined,
  }
  let noted: OutgoingPosition = { number: 0, key: '', server: 'a' }
  const outgoing: OutgoingEvents = {
    position: async () => ({ position: noted, notedMs: 0 }),
    async read(from, limit, stretch) {
      looks.push({ atMs: clock.monotonicMs(), stretch })
      if (state.slowMs > 0) await clock.sleep(state.slowMs)
      if (state.fails) throw new Error('canceling statement due to statement timeout')
      const to = Math.min(state.latest, from.number + stretch)
      const found = [...records].filter(([number]) => number >= from.number && number < to).slice(0, limit)
      const number = found.length < limit ? to : (found.at(-1)?.[0] ?? 0) + 1
      return {
        records: found.map(([, record]) => record),
        next: { number, key: found.length < limit ? '' : 'x', server: 'a' },
        more: number < state.latest,
        latest: state.latest,
        setBack: false,
        nowMs: clock.nowMs(),
      }
    },
    note: async (position) => {
      noted = position
    },
    doubts: () => 0,
  }
  const relay = createEventRelay({
    outgoing,
    publisher: {
      get up() {
        return state.up
      },
      async publish(batch) {
        const ids = batch.map(({ event }) => event.subject)
        state.takes(ids)
        sent.push(...ids)
      },
    },
    installation: 'belfry',
    elector: { heldShards: () => Array.from({ length: 64 }, (_, shard) => ({ shard, term: 1 })) },
    clock,
    random: { next: () => 0 },
    events,
  })
  const add = (count: number): string[] =>
    Array.from({ length: count }, () => {
      const record = ended()
      records.set(state.latest++, record)
      return 'runId' in record.data ? record.data.runId : ''
    })
  return { clock, events, looks, sent, state, relay, add }
}

const gaps = (looks: readonly { readonly atMs: number }[]): number[] =>
  looks.slice(1).map(({ atMs }, index) => atMs - (looks[index]?.atMs ?? 0))

test('looks four times a second at most while there is less than a page, and at once after one', async () => {
  const { clock, looks, sent, relay, add } = openRig()
  await relay.start()
  for (let step = 0; step < 100; step++) {
    add(3)
    await clock.advance(50)
  }
  expect(Math.min(...gaps(looks))).toBeGreaterThanOrEqual(250)
  await clock.advance(1_000)
  expect(sent).toHaveLength(300)
  looks.splice(0)
  add(5_000)
  await clock.advance(1_500)
  expect(sent).toHaveLength(5_300)
  expect(gaps(looks).filter((gap) => gap === 0).length).toBeGreaterThanOrEqual(9)
  await clock.advance(10_000)
  expect(gaps(looks).at(-1)).toBeGreaterThanOrEqual(1_000)
  const stopped = relay.stop()
  await clock.advance(0)
  await stopped
})

test.each(['fails', 'slow'] as const)('asks for less, down to one number, when a look %s', async (how) => {
  const { clock, looks, sent, state, relay, add } = openRig()
  if (how === 'fails') state.fails = true
  else state.slowMs = 9_000
  const ids = add(4)
  state.latest = 1_000_000
  await relay.start()
  await clock.advance(0)
  await clock.advance(120_000)
  expect(looks.slice(0, 7).map(({ stretch }) => stretch)).toEqual([2_000, 500, 125, 31, 7, 1, 1])
  Object.assign(state, { fails: false, slowMs: 0 })
  await clock.advance(60_000)
  expect(sent).toEqual(ids)
  expect(relay.lagMs()).toBeLessThanOrEqual(1_000)
  const stopped = relay.stop()
  await clock.advance(0)
  await stopped
})

test('its lag grows while nothing can be read or sent, and is short again when all is sent', async () => {
  const { clock, state, relay, add } = openRig()
  expect(relay.lagMs()).toBe(0)
  await relay.start()
  await clock.advance(0)
  await clock.advance(5_000)
  expect(relay.lagMs()).toBeLessThanOrEqual(1_000)
  state.up = false
  add(1)
  await clock.advance(60_000)
  expect(relay.lagMs()).toBeGreaterThanOrEqual(60_000)
  Object.assign(state, { up: true, fails: true })
  await clock.advance(60_000)
  expect(relay.lagMs()).toBeGreaterThanOrEqual(120_000)
  state.fails = false
  await clock.advance(15_000)
  expect(relay.lagMs()).toBeLessThanOrEqual(1_000)
  const stopped = relay.stop()
  await clock.advance(0)
  await stopped
})

test('passes over the event at fault, and over none where all are refused for another cause', async () => {
  const { events, sent, state, relay, add } = openRig()
  const ids = add(40)
  const bad = ids[17] ?? ''
  state.takes = () => {
    throw new EventsRefused('not so', false)
  }
  await expect(relay.runOnce()).rejects.toThrow('not so')
  expect(events.of('event_skipped')).toEqual([])
  state.takes = (batch) => {
    if (batch.includes(bad)) throw new EventsRefused('too large', true)
  }
  await relay.runOnce()
  expect(sent).toEqual(ids.filter((id) => id !== bad))
  expect(events.of('event_skipped')).toEqual([
    { id: `${bad}.1`, type: 'belfry.run.succeeded', fault: 'too large' },
  ])
  expect(events.of('events_sent').map(({ count }) => count)).toEqual([39])
})
