// What went wrong elsewhere, and needs limits and real processes to show that it does not here: lanes that
// stay shut after a failure, and keys whose runs hold up others. (The other numbers stand where their subject
// is tested; test/tidy/incidents.test.ts finds them all.)
import type { Client } from '@belfry/sdk'
import { describe, expect, test } from 'vitest'
import { eventually } from '../support/running.ts'
import type { Arena } from './support/arena.ts'
import { arenaHarness } from './support/arena.ts'

const harness = arenaHarness()
const lane = { limit: 1 } as const

async function enqueue(client: Client, job: string, inputs: readonly unknown[]): Promise<string[]> {
  const ids: string[] = []
  for (const input of inputs) ids.push((await client.runs.create({ job, input: input as null })).id)
  return ids
}

async function expectAllSucceed(client: Client, ids: readonly string[]): Promise<void> {
  const runs = await Promise.all(ids.map((id) => client.waitForRun(id, { timeoutMs: 60_000 })))
  expect(runs.map(({ state }) => state)).toEqual(ids.map(() => 'succeeded'))
}

async function slotsTaken(arena: Arena): Promise<number> {
  return (await arena.rows('SELECT FROM belfry.slot WHERE NOT freed')).length
}

describe('a job that runs one at a time', () => {
  test.each(['all connections are cut', 'its worker is killed'])(
    'incident 9: %s in the last attempt of one run; the next ones go on, and no slot is left',
    async (what) => {
      const arena = await harness.open()
      await arena.start('a')
      const handler = { kind: 'http', url: `${arena.ledger.url}/held` } as const
      const retry = { maxAttempts: 1 }
      await arena.client().jobs.create({ name: 'serial', handler, retry, concurrency: lane })
      const ids = await enqueue(arena.client(), 'serial', [1, 2, 3, 4])
      await eventually(() => arena.ledger.holding() === 1, 'the first run under way', 30_000)
      expect(await slotsTaken(arena)).toBe(1)

      if (what === 'its worker is killed') arena.nodes.get('a')?.signal('SIGKILL')
      if (what === 'all connections are cut') {
        await arena.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'belfry'")
      }
      arena.ledger.release()
      if (what === 'its worker is killed') await arena.start('b')
      await expectAllSucceed(arena.client(what === 'its worker is killed' ? 'b' : 'a'), ids)
      await eventually(async () => (await slotsTaken(arena)) === 0, 'no slot taken', 30_000)
      const order = [...new Set(arena.ledger.calls.map(({ runId }) => runId))]
      expect(order, 'each was first begun in its turn').toEqual(ids)
    },
  )
})

describe('two runs of one key that are to be tried again at the same instant', () => {
  test('incident 17: neither holds up the others, nor are they ever two at once', async () => {
    const arena = await harness.open()
    await arena.start('a')
    const client = arena.client()
    const retry = { maxAttempts: 20, baseMs: 1_000, capMs: 1_000, jitter: 'none' } as const
    const concurrency = { key: 'customer', keyLimit: 1 }
    await client.jobs.create({
      name: 'keyed',
      handler: { kind: 'http', url: `${arena.ledger.url}/busy` },
      retry,
      concurrency,
    })
    const customers = ['same', 'same', ...Array.from({ length: 10 }, (_, index) => `other ${index}`)]
    const ids = await enqueue(
      client,
      'keyed',
      customers.map((customer) => ({ customer })),
    )
    // each has failed, and waits for its next attempt
    const failed = `SELECT FROM belfry.attempt WHERE outcome = 'failed'`
    await eventually(
      async () => (await arena.rows(failed)).length >= ids.length,
      'all have failed once',
      30_000,
    )
    arena.ledger.recover()
    await expectAllSucceed(client, ids)
    const spans = await arena.rows<{ started: Date; ended: Date }>(
      `SELECT started_at AS started, ended_at AS ended FROM belfry.attempt WHERE run_id = ANY($1)
       ORDER BY started_at`,
      [ids.slice(0, 2)],
    )
    const together = spans.filter(({ started }, index) => {
      const before = spans[index - 1]
      // the worker's clock says when they ran, to the millisecond
      return before !== undefined && started.getTime() < before.ended.getTime() - 5
    })
    expect(together).toEqual([])
    expect(await slotsTaken(arena)).toBe(0)
  })
})
