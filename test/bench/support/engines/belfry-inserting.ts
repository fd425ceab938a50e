// How the benches ask Belfry for runs: by the calls of the library, as with its peers, and for a backlog by
// copies of one run that was.
import { type Belfry, defineJob } from 'belfry'
import pg from 'pg'
import { copyRow, idOfCopy } from '../copy-rows.ts'
import type { Engine, Place } from '../engine.ts'

const noopName = 'noop'
const maxBatch = 1_000

type Inserting = Pick<
  Engine,
  'insertMany' | 'insertOne' | 'insertAt' | 'insertAllAt' | 'preload' | 'insertSchedules'
>

export const noopJob = (tell: (stampMs: number) => void) =>
  defineJob({ name: noopName, run: (input) => tell((input as { atMs: number }).atMs) })

/** At least one run must have been inserted before `preload`. */
export function inserting(place: Place, job: ReturnType<typeof noopJob>, belfry: () => Belfry): Inserting {
  const client = () => belfry().client
  return {
    async insertOne(atMs) {
      await belfry().enqueue(job, { atMs })
    },
    async insertMany(count) {
      const inputs = Array.from({ length: count }, () => ({ atMs: 0 }))
      await belfry().enqueueMany(job, inputs)
    },
    async insertAt(atMs) {
      await belfry().enqueue(job, { atMs }, { runAt: new Date(atMs) })
    },
    async insertAllAt(due) {
      const runs = due.map((atMs) => ({
        job: noopName,
        input: { atMs },
        runAt: new Date(atMs).toISOString(),
      }))
      for (let from = 0; from < runs.length; from += maxBatch) {
        await client().runs.enqueueBatch({ items: runs.slice(from, from + maxBatch), atomic: true })
      }
    },
    async insertSchedules(count, dueMs) {
      const at = new Date(dueMs).toISOString()
      const names = Array.from({ length: count }, (_, each) => `at-${dueMs}-${each}`)
      for (let from = 0; from < count; from += 20) {
        const some = names.slice(from, from + 20)
        await Promise.all(
          some.map((name) => client().schedules.create({ name, job: noopName, at, input: { atMs: dueMs } })),
        )
      }
    },
    async preload(count) {
      await copyRun(place.databaseUrl, count)
    },
  }
}

/**
 * Copies one run with all that belongs to it, whatever its columns are, as often as asked for; ids and tags
 * go on. The first that was ready is the model.
 */
async function copyRun(databaseUrl: string, count: number): Promise<void> {
  const sql = new pg.Client({ connectionString: databaseUrl })
  await sql.connect()
  try {
    await sql.query(keepModel)
    const { rows } = await sql.query<{ tag: number }>('SELECT nextval($1) AS tag', ['model_tag'])
    const tag = `tag + ${Number(rows[0]?.tag) * 1_000_000} + place`
    const id = idOfCopy()
    await copyRow(sql, 'run', 'model_run', { id, due_at: 'now()', created_at: 'now()' }, count)
    await copyRow(sql, 'ready', 'model_ready', { run_id: id, tag, available_at: 'now()' }, count)
  } finally {
    await sql.end()
  }
}

const keepModel = `
CREATE TABLE IF NOT EXISTS model_ready AS SELECT * FROM belfry.ready WHERE session_id IS NULL LIMIT 1;
CREATE TABLE IF NOT EXISTS model_run AS
  SELECT run.* FROM belfry.run JOIN model_ready ON run.id = model_ready.run_id;
CREATE SEQUENCE IF NOT EXISTS model_tag`
