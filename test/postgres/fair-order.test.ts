// Fair order over processes that share nothing but the database: roles apart, restarts, and queues that were
// forgotten. Each `process()` is a process's own tags; claims and tables are real.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createFairTags, type FairTags } from '../../packages/server/src/engine/fair-tags.ts'
import { createPostgresQueueProgress } from '../../packages/server/src/postgres/queue-progress.ts'
import { startTestApi, httpJob } from '../support/api.ts'
import { realClock } from '../support/real-clock.ts'
import {
  createRunningFixture,
  eventually,
  type RunningFixture,
  succeededEnd,
  type TestJob,
} from '../support/running.ts'

let fixture: RunningFixture
const opened: FairTags[] = []
beforeAll(async () => {
  fixture = await createRunningFixture()
})
afterAll(async () => {
  await Promise.all(opened.map((tags) => tags.close()))
  await fixture.drop()
})

function process(): FairTags {
  const db = fixture.database.open({ maxConnections: 1 })
  const tags = createFairTags({ clock: realClock, progress: createPostgresQueueProgress(db) })
  opened.push(tags)
  return tags
}

/** Enqueues runs as a process with these tags would; answers the tags. */
async function enqueue(tags: FairTags, job: TestJob, queue: string, count: number): Promise<number[]> {
  await tags.ready([queue])
  const given: number[] = []
  for (let i = 0; i < count; i++) {
    const tag = tags.next({ queue, tenantId: job.tenantId, weight: 1, priority: 0 })
    await fixture.addRuns(job, 1, { queue, firstTag: tag })
    given.push(tag)
  }
  return given
}

/** Claims and ends up to `limit` runs as a worker with these tags would; answers whose, and their tags. */
async function serve(tags: FairTags, queue: string, limit: number) {
  const sessionId = await fixture.openSession()
  const shares = [{ queue, minTag: -Infinity, limit }]
  const { runs } = await fixture.queue.claim({
    sessionId,
    shares,
    routes: ['http'],
    deadlineMarginMs: 30_000,
  })
  const highest = runs.at(-1)?.tag
  if (highest !== undefined) tags.observeClaimed(queue, highest)
  await fixture.store.complete(
    sessionId,
    runs.map((run) => succeededEnd(run)),
  )
  return runs.map(({ tenantId, tag }) => ({ tenantId, tag }))
}

const noted = (queue: string, tag: number): Promise<unknown> =>
  eventually(async () => {
    const [row] = await fixture.database.sql<{ tag: number }>(
      'SELECT virtual_time AS tag FROM belfry.queue_progress WHERE queue = $1',
      [queue],
    )
    return row?.tag === tag
  }, `tag ${tag} of queue ${queue} to be noted`)

describe('roles apart', () => {
  test('where nobody claims, a tenant of old does not wait behind the flood of a new one', async () => {
    const [old, flood] = [await fixture.addJob(), await fixture.addJob({}, await fixture.addTenant())]
    const [api, worker] = [process(), process()]
    await enqueue(api, old, 'apart', 40)
    expect(await serve(worker, 'apart', 100)).toHaveLength(40)
    await noted('apart', 40)
    const restarted = process()
    await enqueue(restarted, flood, 'apart', 30)
    await enqueue(restarted, old, 'apart', 1)
    const order = await serve(worker, 'apart', 100)
    expect(order.findIndex(({ tenantId }) => tenantId === old.tenantId)).toBeLessThanOrEqual(1)
  })

  test('two processes that enqueue count from the same place, also when the queue ran empty', async () => {
    const job = await fixture.addJob()
    const worker = process()
    await enqueue(process(), job, 'empty', 20)
    await serve(worker, 'empty', 100)
    await noted('empty', 20)
    expect(await enqueue(process(), job, 'empty', 1)).toEqual([21])
    // The service stands before the first that waits, at the least.
    expect(await enqueue(process(), job, 'empty', 1)).toEqual([22])
  })
})

describe('a restart under overload', () => {
  test('new runs do not overtake the backlog', async () => {
    const job = await fixture.addJob()
    // Nothing was noted: an older version, or a process that was killed in its first second.
    await fixture.addRuns(job, 800, { queue: 'restart', firstTag: 1_001 })
    const tags = process()
    let fromBacklog = 0
    for (let round = 0; round < 12; round++) {
      await enqueue(tags, job, 'restart', 20)
      const served = await serve(tags, 'restart', 15)
      const first = Math.min(...served.map(({ tag }) => tag))
      expect(first).toBeGreaterThan(1_000)
      // Of the backlog there is one run at each whole place, of the new ones one at most.
      fromBacklog += new Set(served.map(({ tag }) => tag)).size
    }
    expect(fromBacklog).toBeGreaterThan(80)
  }, 60_000)
})

describe('through the API', () => {
  test('a run that is started on demand gets its place behind what was claimed elsewhere', async () => {
    const api = await startTestApi()
    try {
      const progress = createPostgresQueueProgress(api.db)
      await progress.note([
        { queue: 'default', tag: 5_000 },
        { queue: 'other', tag: 70 },
      ])
      await progress.note([{ queue: 'default', tag: 4_000 }])
      await api.call('POST', '/v1/jobs', { body: httpJob('report') })
      const body = { name: 'hourly', every: '1h', job: 'report' }
      const schedule = await api.call('POST', '/v1/schedules', { body })
      await api.call('POST', '/v1/runs', { body: { job: 'report' } })
      await api.call('POST', '/v1/runs', { body: { job: 'report', queue: 'other' } })
      await api.call('POST', `/v1/schedules/${schedule.body.id}/trigger`, { body: {} })
      const rows = await api.database.sql<{ tag: number }>('SELECT tag FROM belfry.ready ORDER BY run_id')
      expect(rows.map(({ tag }) => tag)).toEqual([5_001, 71, 5_002])
    } finally {
      await api.close()
    }
  })
})

describe('queues that are idle', () => {
  test('are forgotten after a month', async () => {
    const progress = createPostgresQueueProgress(fixture.database.open({ maxConnections: 1 }))
    await progress.note([
      { queue: 'gone', tag: 5 },
      { queue: 'kept', tag: 6 },
    ])
    await fixture.database.sql(
      `UPDATE belfry.queue_progress SET noted_at = now() - interval '31 days' WHERE queue = 'gone'`,
    )
    await progress.forgetIdle()
    const rows = await progress.read(['gone', 'kept'])
    expect(Object.fromEntries(rows.map(({ queue, tag }) => [queue, tag]))).toEqual({ gone: 0, kept: 6 })
  })
})
