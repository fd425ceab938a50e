// Runs that are followed from another process: news comes by notice, and without notices by the look each
// second. What a look reads is bounded by what is new, however long the log is.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { createRunWatcher } from '../../packages/server/src/engine/run-watcher.ts'
import { createWatchedRuns } from '../../packages/server/src/engine/watched-runs.ts'
import type { Hints } from '../../packages/server/src/ports/hints.ts'
import { createLocalHints } from '../../packages/server/src/engine/local-hints.ts'
import { createPostgresHints } from '../../packages/server/src/postgres/hints.ts'
import { createPostgresRunWatchStore } from '../../packages/server/src/postgres/run-watch-store.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { eventually } from '../support/running.ts'

let database: TestDatabase
const open: { close: () => unknown }[] = []
beforeAll(async () => {
  database = await createTestDatabase()
})
afterEach(async () => {
  for (const each of open.splice(0)) await each.close()
})
afterAll(() => database.drop())

const runId = '01a22b5b-0000-7000-8000-000000000001'
const tenantId = '01a22b5b-0000-7000-8000-0000000000aa'
const signal = new AbortController().signal
const line = { at: '2026-12-01T00:00:00Z', level: 'info', message: 'x' }

function process(senderId: string) {
  const connection = database.connection
  const hints = createPostgresHints({
    db: database.open(),
    connection,
    clock: realClock,
    random: realRandom,
    senderId,
  })
  hints.start()
  open.push(hints)
  return hints
}
function watcherOf(hints: Hints) {
  const watcher = createRunWatcher({
    hints,
    clock: realClock,
    random: realRandom,
    events: { emit: () => undefined },
    store: createPostgresRunWatchStore(database.open()),
  })
  open.push(watcher)
  return watcher
}

async function write(firstLine: number, count = 1, number = 1): Promise<void> {
  await database.sql(
    `INSERT INTO belfry.run_log (run_id, number, first_line, last_line, tenant_id, lines, total_bytes)
     SELECT $1, $2, $3::int + i, $3::int + i, $4, $6, 1 FROM generate_series(0, $5::int - 1) AS i`,
    [runId, number, firstLine, tenantId, count, JSON.stringify([line])],
  )
}

test('a line that another process wrote is told of by notice', async () => {
  const [here, there] = [process('here'), process('there')]
  await eventually(async () => {
    const [row] = await database.sql<{ count: number }>(
      `SELECT count(*)::int FROM pg_stat_activity
       WHERE application_name = 'belfry-hints' AND datname = current_database() AND query LIKE 'LISTEN%'`,
    )
    return row?.count === 2
  }, 'both listen')
  const watched = createWatchedRuns({ hints: there, clock: realClock })
  const heard: string[] = []
  there.subscribe(({ topic }) => void heard.push(topic))
  const waiting = watcherOf(here).next({ runId, after: { attempt: 0, line: -1 }, waitMs: 10_000, signal })
  await eventually(async () => heard.includes('watch'), 'the other process knows who is followed')
  await write(0)
  const writtenMs = performance.now()
  watched.note([{ runId }])
  expect((await waiting)?.chunks).toMatchObject([{ attempt: 1, firstLine: 0, lines: [{ message: 'x' }] }])
  expect(performance.now() - writtenMs).toBeLessThan(500)
})

test('without notices the look each second finds it', async () => {
  const after = { attempt: 1, line: 0 }
  const waiting = watcherOf(createLocalHints()).next({ runId, after, waitMs: 10_000, signal })
  await write(1)
  expect((await waiting)?.chunks).toMatchObject([{ firstLine: 1 }])
})

test('a look reads what is new, and not the log before it', async () => {
  await write(2, 20_000)
  await write(0, 1, 2)
  const store = createPostgresRunWatchStore(database.open())
  const read = async (line: number) => {
    const [news] = await store.look([{ runId, after: { attempt: 1, line } }])
    return news
  }
  const begin = await read(1)
  expect([begin?.chunks.length, begin?.more]).toEqual([20, true])
  const end = await read(20_000)
  expect(end?.chunks.map(({ attempt, firstLine }) => [attempt, firstLine])).toEqual([
    [1, 20_001],
    [2, 0],
  ])
  const [plan] = await database.sql<{ 'QUERY PLAN': unknown }>(
    `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)
     SELECT FROM belfry.run_log AS log
     WHERE log.run_id = '${runId}' AND ROW (log.number, log.first_line) > ROW (1, 20000 - 1000)
       AND (log.number > 1 OR log.last_line > 20000)
     ORDER BY log.number, log.first_line LIMIT 21`,
  )
  const removed = /"Rows Removed by Filter": (\d+)/.exec(JSON.stringify(plan, null, 1))?.[1]
  expect(Number(removed ?? 0)).toBeLessThanOrEqual(1_000)
})
