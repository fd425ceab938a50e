// pg-boss with four workers that take 500 jobs at a time, every half second: its shortest poll.
import { PgBoss } from 'pg-boss'
import type { Engine, EngineOptions } from '../engine.ts'

const queue = 'noop'
const workers = 4

export async function openPgBoss({ place }: EngineOptions): Promise<Engine> {
  const boss = new PgBoss({ connectionString: place.databaseUrl, max: 10 })
  boss.on('error', (error) => process.stderr.write(`pg-boss: ${error.message}\n`))
  await boss.start()
  await boss.createQueue(queue)
  const insertMany = async (count: number): Promise<void> => {
    await boss.insert(
      queue,
      Array.from({ length: count }, () => ({ data: { atMs: 0 } })),
    )
  }
  return {
    insertMany,
    async insertOne(atMs) {
      await boss.send(queue, { atMs })
    },
    async insertAt(atMs) {
      await boss.send(queue, { atMs }, { startAfter: new Date(atMs) })
    },
    async insertAllAt(due) {
      await boss.insert(
        queue,
        due.map((atMs) => ({ data: { atMs }, startAfter: new Date(atMs) })),
      )
    },
    async preload(count) {
      for (let left = count; left > 0; left -= 5_000) await insertMany(Math.min(left, 5_000))
    },
    async work(heard) {
      for (let each = 0; each < workers; each++) {
        await boss.work<{ atMs: number }>(
          queue,
          { batchSize: 500, pollingIntervalSeconds: 0.5 },
          async (jobs) => {
            for (const { data } of jobs) heard(data.atMs)
          },
        )
      }
    },
    close: () => boss.stop({ graceful: false }),
  }
}
