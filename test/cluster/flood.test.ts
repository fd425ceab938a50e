// Tenant A asks for 100,000 runs at once; tenant B asks for one each second. Both share one server with few
// slots, so A's backlog outlasts the test. B's runs overtake it: each starts while nearly all of A's wait.
// The start delays of B are printed; what is asserted of them leaves room for a busy machine.
import { setTimeout as wait } from 'node:timers/promises'
import { maxBatchItems } from '@belfry/contract'
import type { Client } from '@belfry/sdk'
import { createClient } from '@belfry/sdk'
import { expect, test } from 'vitest'
import { eventually } from '../support/running.ts'
import type { Arena } from './support/arena.ts'
import { arenaHarness } from './support/arena.ts'

const harness = arenaHarness()
const flood = 100_000
const rounds = 20
/** So many of A's runs wait at least whenever one of B's starts. */
const backlog = 80_000

/** In calls of the largest size. */
async function ask(client: Client, job: string, count: number): Promise<void> {
  const items = Array.from({ length: maxBatchItems }, () => ({ job }))
  for (let asked = 0; asked < count; asked += items.length) {
    const { results } = await client.runs.enqueueBatch({ items, atomic: true })
    expect(results).toHaveLength(items.length)
  }
}

const makeJob = (client: Client, arena: Arena, name: string) =>
  client.jobs.create({ name, handler: { kind: 'http', url: `${arena.ledger.url}/work` } })

const percentile = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0

test(`a tenant's run each second overtakes ${flood} of another tenant`, async () => {
  const arena = await harness.open({ env: { BELFRY_WORKER_SLOTS: '20' } })
  const node = await arena.start('a')
  const other = createClient({ url: node.apiUrl, apiKey: await arena.keyOf('other') })
  await makeJob(other, arena, 'steady')
  await makeJob(arena.client(), arena, 'flood')
  const beganMs = performance.now()
  const flooding = ask(arena.client(), 'flood', flood).then(() => performance.now() - beganMs)
  await eventually(() => arena.ledger.calls.length > 100, 'the flood is worked at', 60_000)

  const floodWaits = async (): Promise<number> => {
    const [row] = await arena.rows<{ n: number }>(
      `SELECT count(*)::int AS n FROM belfry.ready JOIN belfry.job ON job.id = ready.job_id
       WHERE job.name = 'flood' AND ready.session_id IS NULL`,
    )
    return row?.n ?? 0
  }
  const delays: number[] = []
  for (let round = 0; round < rounds; round++) {
    const nextMs = performance.now() + 1_000
    const { id } = await other.runs.create({ job: 'steady' })
    const run = await other.waitForRun(id, { timeoutMs: 30_000 })
    expect(run.state).toBe('succeeded')
    const startedMs = Date.parse(run.attemptList[0]?.startedAt ?? '')
    delays.push(startedMs - Date.parse(run.dueAt))
    // one each second: this is the pace of the load, not a wait for a result
    await wait(Math.max(0, nextMs - performance.now()))
  }
  process.stdout.write(`flood: ${flood} runs asked for in ${Math.round(await flooding)} ms\n`)
  expect(await floodWaits(), 'every run of B has overtaken these').toBeGreaterThan(backlog)
  const sorted = delays.toSorted((one, other) => one - other)
  process.stdout.write(
    `flood: start delay of the other tenant p50 ${percentile(sorted, 0.5)} ms, ` +
      `p99 ${percentile(sorted, 0.99)} ms, of ${rounds}\n`,
  )
  expect(percentile(sorted, 0.99)).toBeLessThan(5_000)
})
