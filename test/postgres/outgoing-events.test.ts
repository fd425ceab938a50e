// What has ended, as the relay of events reads it: all of it, once each, in the order of transactions, also
// what commits late; and from where it stood, whoever reads on. Sent on, it has the shape of the contract.
import { type CloudEvent, cloudEventSchema } from '@belfry/contract'
import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { EndedRecord } from '../../packages/server/src/domain/cloud-event.ts'
import { createEventRelay } from '../../packages/server/src/engine/event-relay.ts'
import type { EventPublisher, OutgoingPosition } from '../../packages/server/src/ports/outgoing-events.ts'
import { createPostgresOutgoingEvents } from '../../packages/server/src/postgres/outgoing-events.ts'
import { listEnded, walkStretches } from '../../packages/server/src/postgres/statements/outgoing-events.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { eventually, recordEvents, retriedEnd, succeededEnd } from '../support/running.ts'
import { openWorkflowRig, type WorkflowRig } from '../support/workflow-rig.ts'

let rig: WorkflowRig
beforeEach(async () => {
  rig = await openWorkflowRig()
})
afterEach(() => rig.close())

const open = (name = 'test') => createPostgresOutgoingEvents(rig.fixture.database.open(), name)
const place = async () => (await open().position()).position
const relayParts = () => ({
  installation: 'belfry',
  elector: { heldShards: () => Array.from({ length: 64 }, (_, shard) => ({ shard, term: 1 })) },
  clock: realClock,
  random: realRandom,
  events: recordEvents(),
})

/** Everything from there on, page by page. */
async function readAll(from: OutgoingPosition, limit = 1_000, stretch = 1_000_000) {
  const outgoing = open()
  const records = []
  let position = from
  for (;;) {
    const page = await outgoing.read(position, limit, stretch)
    records.push(...page.records)
    position = page.next
    if (!page.more) return { records, position }
  }
}

async function endRuns(count: number, retried = 0): Promise<string[]> {
  const { fixture } = rig
  const job = await fixture.addJob()
  const ids = await fixture.addRuns(job, count, { input: { secret: 'no' } })
  const sessionId = await fixture.openSession()
  await rig.fixture.database.sql(
    `UPDATE belfry.ready SET session_id = $2, claimed_at = belfry.now(), lease_epoch = 1, attempt = 1,
       deadline = belfry.now() + interval '1 min' WHERE run_id = ANY ($1::uuid[])`,
    [ids, sessionId],
  )
  const ends = ids.map((runId, index) =>
    (index < retried ? retriedEnd : succeededEnd)({ runId, leaseEpoch: 1 }),
  )
  await fixture.store.complete(sessionId, ends)
  return ids
}

const idsOf = (records: readonly EndedRecord[]) =>
  records.map(({ data }) => ('runId' in data ? data.runId : ''))

test('begins now, and reads all that ends from there on once, in pages of any size', async () => {
  await endRuns(5)
  const from = await place()
  const ids = [...(await endRuns(7)), ...(await endRuns(3)), ...(await endRuns(11))]
  for (const [limit, stretch] of [
    [1_000, 1_000_000],
    [2, 1_000_000],
    [4, 1],
    [1, 3],
  ] as const) {
    const { records } = await readAll(from, limit, stretch)
    expect(idsOf(records).toSorted()).toEqual(ids.toSorted())
  }
  expect(await place()).toEqual(from)
  const { position } = await readAll(from)
  await open().note(position)
  await open().note(from)
  expect(await place()).toEqual(position)
  expect((await readAll(position)).records).toEqual([])
})

test('passes over nothing that commits later than what began later', async () => {
  const from = await place()
  const [late = ''] = await endRuns(1)
  const [row] = await rig.fixture.database.sql<Record<string, unknown>>(
    'SELECT * FROM belfry.attempt WHERE run_id = $1',
    [late],
  )
  const client = new pg.Client(rig.fixture.database.adminConnection)
  await client.connect()
  try {
    await client.query('BEGIN')
    await client.query(
      `INSERT INTO belfry.attempt (run_id, number, tenant_id, lease_epoch, outcome, retry_at, started_at)
       VALUES ($1, 2, $2, 1, 'failed', belfry.now(), belfry.now())`,
      [late, row?.['tenant_id']],
    )
    const after = await endRuns(3)
    const { records, position } = await readAll(from)
    expect(idsOf(records)).toEqual([late])
    await client.query('COMMIT')
    const rest = await readAll(position)
    expect(rest.records.map(({ data }) => ('attempt' in data ? data.attempt : 0))).toEqual([2, 1, 1, 1])
    expect(idsOf(rest.records).slice(1).toSorted()).toEqual(after.toSorted())
  } finally {
    await client.end()
  }
})

test('tells the end of a workflow run behind those of its tasks, and nothing that is secret', async () => {
  const from = await place()
  const id = await rig.begin({ tasks: [{ id: 'a', job: 'x' }] }, { token: 'secret' })
  await rig.resolver.runOnce()
  const [task] = await rig.claim()
  if (task === undefined) throw new Error('nothing was started')
  await rig.end(task, 'succeeded', { result: 'secret' })
  await rig.resolver.runOnce()
  const { records } = await readAll(from)
  expect(records.map(({ kind }) => kind)).toEqual(['run', 'workflow_run'])
  expect(records[0]?.data).toMatchObject({ runId: task.runId, workflowRunId: id, state: 'succeeded' })
  expect(records[1]?.data).toMatchObject({ workflowRunId: id, state: 'succeeded', version: 1 })
  expect(JSON.stringify(records)).not.toContain('secret')
})

test('starts anew where its position is of another database', async () => {
  const { number } = await place()
  await rig.fixture.database.sql("UPDATE belfry.outgoing_position SET number = 1e15, key = 'x'")
  const anew = await place()
  expect(anew.number).toBeGreaterThanOrEqual(number)
  expect(anew.number).toBeLessThan(1e15)
  const ids = await endRuns(2)
  expect(idsOf((await readAll(anew)).records).toSorted()).toEqual(ids.toSorted())
})

test('says so where its position is of another server or never reached, and notes nothing', async () => {
  const from = await place()
  await endRuns(3)
  for (const elsewhere of [
    { ...from, server: '1' },
    { ...from, number: from.number + 1_000_000 },
  ]) {
    const page = await open().read(elsewhere, 10, 1_000)
    expect(page).toMatchObject({ records: [], next: elsewhere, more: false, setBack: true })
    await open().note({ ...elsewhere, number: elsewhere.number + 1 })
    expect(await place()).toEqual(from)
  }
  expect(await open().read(from, 10, 1_000_000)).toMatchObject({ setBack: false })
})

test('goes on behind an attempt of which only that is left', async () => {
  const from = await place()
  const [gone = '', ...ids] = await endRuns(4)
  await rig.fixture.database.sql('DELETE FROM belfry.run WHERE id = $1', [gone])
  const { records } = await readAll(from, 1)
  expect(idsOf(records).toSorted()).toEqual(ids.toSorted())
})

test('the relay goes back to what is noted at each doubt, and sends that again', async () => {
  const sent: string[] = []
  let doubts = 0
  const outgoing = { ...open('relay'), doubts: () => doubts, note: async () => {} }
  await outgoing.position()
  const relay = createEventRelay({
    ...relayParts(),
    outgoing,
    publisher: {
      up: true,
      publish: async (events) => void sent.push(...events.map(({ event }) => event.subject)),
    },
  })
  const ids = await endRuns(3)
  expect(await relay.runOnce()).toBe(3)
  expect(await relay.runOnce()).toBe(0)
  doubts++
  expect(await relay.runOnce()).toBe(3)
  expect(sent.toSorted()).toEqual([...ids, ...ids].toSorted())
})

test('finds its rows by the index over stretches, whatever the statistics say', async () => {
  await endRuns(20)
  const client = new pg.Client(rig.fixture.database.adminConnection)
  await client.connect()
  try {
    // a table that is large
    await client.query(
      `INSERT INTO belfry.attempt (run_id, number, tenant_id, lease_epoch, outcome, retry_at, started_at,
         ended_in)
       SELECT gen_random_uuid(), 1, $1, 1, 'failed', belfry.now(), belfry.now(), n / 100
       FROM generate_series(1, 100000) AS n`,
      [rig.fixture.tenantId],
    )
    await client.query('BEGIN')
    await client.query(walkStretches.text)
    const plan = await client.query<{ 'QUERY PLAN': string }>(
      `EXPLAIN ${listEnded.text
        .replaceAll('$1', '900::bigint')
        .replaceAll('$2', "''")
        .replaceAll('$3', '950::bigint')
        .replaceAll('$4', '1000')}`,
    )
    const words = plan.rows.map((row) => row['QUERY PLAN']).join('\n')
    expect(words).toMatch(/Bitmap Index Scan on attempt_default_ended_in/)
    expect(words).not.toContain('Seq Scan')
  } finally {
    await client.end()
  }
})

test('the relay sends everything at least once, and again what was not accepted', async () => {
  const sent: CloudEvent[] = []
  let refuse = 2
  const publisher: EventPublisher = {
    up: true,
    publish: async (events) => {
      if (refuse-- > 0) throw new Error('not now')
      sent.push(...events.map(({ event }) => event))
    },
  }
  const events = recordEvents()
  await open('relay').position()
  const relay = createEventRelay({ ...relayParts(), outgoing: open('relay'), publisher, events })
  const ids = await endRuns(30, 10)
  await relay.start()
  await eventually(() => sent.length >= 30, 'all are sent')
  await relay.stop()
  for (const event of sent) expect(cloudEventSchema.safeParse(event).error).toBeUndefined()
  expect(sent.map(({ subject }) => subject).toSorted()).toEqual(ids.toSorted())
  expect(sent.filter(({ type }) => type === 'belfry.run.retrying')).toHaveLength(10)
  expect(new Set(sent.map(({ id }) => id)).size).toBe(30)
  expect(events.of('role_failed')).toHaveLength(2)
  expect(events.of('events_sent').reduce((sum, { count }) => sum + count, 0)).toBe(30)
})
