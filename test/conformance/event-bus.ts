// What every EventBus must do, whatever carries whose turn it is. The adapter's test file calls this with a
// way to make one more consumer, as of another process. What happens to workflow runs is real: their tasks
// start, are claimed and end.
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { DeliveryLimits, EventBus } from '../../packages/server/src/ports/event-bus.ts'
import type { DueWorkflowRuns } from '../../packages/server/src/ports/workflow-runs.ts'
import { openWorkflowRig, type WorkflowRig } from '../support/workflow-rig.ts'

export interface EventBusRig {
  readonly bus: EventBus
  /** One more consumer of the same events, with a connection of its own. */
  readonly another: () => EventBus
  /** Forgets what is on its way, as a broker that lost it; nothing where there is no broker. */
  readonly lose: () => Promise<void>
  readonly drop: () => Promise<void>
}

const all: DeliveryLimits = { runs: 100, events: 1_000, without: [] }

export function describeEventBus(name: string, create: (rig: WorkflowRig) => Promise<EventBusRig>): void {
  describe(`event bus: ${name}`, () => {
    let rig: WorkflowRig
    let made: EventBusRig
    let bus: EventBus
    beforeEach(async () => {
      rig = await openWorkflowRig()
      made = await create(rig)
      bus = made.bus
    })
    afterEach(async () => {
      await made.drop()
      await rig.close()
    })

    const chain = {
      tasks: [
        { id: 'a', job: 'x' },
        { id: 'b', job: 'x', needs: ['a'] },
      ],
    }
    const sql = <Row extends Record<string, unknown>>(text: string, params: readonly unknown[] = []) =>
      rig.fixture.database.sql<Row>(text, [...params])
    /** What comes within a while; a bus may carry it later than it was put on record. */
    async function taken(from: EventBus = bus, limits = all): Promise<DueWorkflowRuns> {
      const untilMs = Date.now() + 5_000
      for (;;) {
        const due = await from.deliver(limits, (each) => Promise.resolve(each))
        if (due.runs.length > 0 || Date.now() > untilMs) return due
        await wait(20)
      }
    }
    async function nothing(from: EventBus = bus): Promise<void> {
      await wait(50)
      expect(await from.deliver(all, ({ runs }) => Promise.resolve(runs.map(({ id }) => id)))).toEqual([])
    }
    /** A workflow run with one task, which has ended. */
    async function ended(): Promise<{ id: string; runId: string }> {
      const id = await rig.begin(chain)
      await rig.resolver.runOnce()
      const run = (await rig.claim())[0]
      if (run === undefined) throw new Error('Nothing was started.')
      await rig.end(run, 'succeeded')
      return { id, runId: run.runId }
    }
    const again = (id: string, runId: string, count: number) =>
      sql(
        `INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind, run_id)
         SELECT $1, $2, 'end', $3 FROM generate_series(1, $4)`,
        [id, rig.fixture.tenantId, runId, count],
      )

    test('hands over what was committed, with what it tells of', async () => {
      const id = await rig.begin(chain)
      const begun = await taken()
      expect(begun.runs.map((run) => run.id)).toEqual([id])
      expect(begun.events).toEqual([{ workflowRunId: id, kind: 'begin' }])
      expect(begun.waitsMs).toHaveLength(1)
      const other = await ended()
      expect((await taken()).events).toEqual([
        { workflowRunId: other.id, kind: 'end', task: 0, item: undefined, state: 'succeeded' },
      ])
      await rig.cancel(id)
      expect((await taken()).events).toEqual([{ workflowRunId: id, kind: 'cancel' }])
      await nothing()
    })

    test('hands over nothing before its commit, and nothing of what is rolled back', async () => {
      const id = await rig.begin(chain)
      await taken()
      const client = new pg.Client(rig.fixture.database.adminConnection)
      await client.connect()
      try {
        for (const end of ['ROLLBACK', 'COMMIT']) {
          await client.query('BEGIN')
          await client.query(
            `INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind) VALUES ($1, $2, 'cancel')`,
            [id, rig.fixture.tenantId],
          )
          await nothing()
          await client.query(end)
        }
      } finally {
        await client.end()
      }
      expect((await taken()).events).toEqual([{ workflowRunId: id, kind: 'cancel' }])
    })

    test('takes once what is told again and again, by whoever takes it', async () => {
      const { id, runId } = await ended()
      await again(id, runId, 5)
      const first = await taken()
      expect(first.events.filter(({ kind }) => kind === 'end').length).toBeGreaterThan(0)
      await again(id, runId, 3)
      const second = await made.another().deliver(all, ({ events }) => Promise.resolve(events))
      expect(second).toEqual([])
    })

    test('comes again where the work fails, all of it', async () => {
      const { id } = await ended()
      const seen: number[] = []
      for (let tries = 0; tries < 3; tries++) {
        await expect(
          bus.deliver(all, async ({ events }, tx) => {
            seen.push(events.length)
            await tx.begunWith([id])
            throw new Error('cut off')
          }),
        ).rejects.toThrow('cut off')
      }
      expect(seen).toEqual([1, 1, 1])
      expect((await taken()).events).toHaveLength(1)
      await nothing()
    })

    test('comes to another where its consumer dies in the middle of it', async () => {
      const { id } = await ended()
      const dying = bus
        .deliver(all, async ({ events }, tx) => {
          expect(events).toHaveLength(1)
          await sql(
            `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND state = 'idle in transaction'
               AND pid <> pg_backend_pid()`,
          )
          await tx.begunWith([id])
        })
        .then(
          () => undefined,
          (error: unknown) => error,
        )
      expect(await dying).toBeInstanceOf(Error)
      expect((await taken(made.another())).events).toHaveLength(1)
    })

    test('hands a workflow run to one consumer at a time, and all of them to all', async () => {
      const ids = await Promise.all(Array.from({ length: 40 }, () => rig.begin(chain)))
      const consumers = [bus, made.another(), made.another()]
      const held = new Set<string>()
      const got: string[] = []
      const consume = async (own: EventBus) => {
        const untilMs = Date.now() + 10_000
        while (got.length < ids.length && Date.now() < untilMs) {
          await own.deliver({ ...all, runs: 7 }, async ({ runs }) => {
            for (const { id } of runs) {
              expect(held.has(id)).toBe(false)
              held.add(id)
            }
            await wait(5)
            for (const { id } of runs) {
              held.delete(id)
              got.push(id)
            }
          })
        }
      }
      await Promise.all(consumers.map(consume))
      expect(got.toSorted()).toEqual(ids.toSorted())
    })

    test('keeps to its limits, goes on with the rest, and leaves alone what it is told to', async () => {
      const ids = await Promise.all(Array.from({ length: 5 }, () => rig.begin(chain)))
      const [one = '', two = ''] = ids
      const seen: string[] = []
      for (let round = 0; round < 2; round++) {
        const { runs } = await taken(bus, { ...all, runs: 2, without: [one] })
        expect(runs).toHaveLength(2)
        seen.push(...runs.map(({ id }) => id))
      }
      expect(seen).not.toContain(one)
      expect(seen).toContain(two)
      expect((await taken()).runs.map(({ id }) => id)).toEqual([one])
    })

    test('hands over a workflow run whose time is over, without an event', async () => {
      const id = await rig.begin(chain)
      await taken()
      await sql(
        `UPDATE belfry.workflow_progress SET deadline = belfry.now() - interval '1 s'
         WHERE workflow_run_id = $1`,
        [id],
      )
      const { runs, events } = await taken()
      expect(runs.map((run) => [run.id, run.overdue])).toEqual([[id, true]])
      expect(events).toEqual([])
    })

    test('tells of what comes, and hands over what it did not tell of', async () => {
      let arrivals = 0
      const stop = bus.onArrival(() => (arrivals += 1))
      rig.hints.publish({ topic: 'workflows', key: 'any' })
      rig.hints.publish({ topic: 'ready', key: 'default' })
      await expect.poll(() => arrivals).toBe(1)
      stop()
      rig.hints.publish({ topic: 'workflows', key: 'any' })
      const { id } = await ended()
      await made.lose()
      expect((await taken()).runs.map((run) => run.id)).toEqual([id])
      expect(arrivals).toBe(1)
    })
  })
}
