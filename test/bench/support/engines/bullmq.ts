// BullMQ on Redis, one worker with 100 jobs at a time.
import { Queue, Worker } from 'bullmq'
import type { Engine, EngineOptions } from '../engine.ts'

const name = 'noop'

export async function openBullMq({ place }: EngineOptions): Promise<Engine> {
  if (place.redisPort === null) throw new Error('BullMQ needs Redis, which is missing.')
  const connection = { host: '127.0.0.1', port: place.redisPort, maxRetriesPerRequest: null }
  // finished jobs are kept, as the history of the others is
  const queue = new Queue<{ atMs: number }>(name, {
    connection,
    defaultJobOptions: { removeOnComplete: false },
  })
  await queue.waitUntilReady()
  let worker: Worker<{ atMs: number }> | undefined
  const insertMany = async (count: number): Promise<void> => {
    await queue.addBulk(Array.from({ length: count }, () => ({ name, data: { atMs: 0 } })))
  }
  return {
    insertMany,
    async insertOne(atMs) {
      await queue.add(name, { atMs })
    },
    async insertAt(atMs) {
      await queue.add(name, { atMs }, { delay: Math.max(0, atMs - Date.now()) })
    },
    async insertAllAt(due) {
      const nowMs = Date.now()
      await queue.addBulk(
        due.map((atMs) => ({ name, data: { atMs }, opts: { delay: Math.max(0, atMs - nowMs) } })),
      )
    },
    async preload(count) {
      for (let left = count; left > 0; left -= 1_000) await insertMany(Math.min(left, 1_000))
    },
    async work(heard) {
      worker = new Worker<{ atMs: number }>(name, async ({ data }) => heard(data.atMs), {
        connection,
        concurrency: 100,
      })
      worker.on('error', (error) => process.stderr.write(`BullMQ: ${error.message}\n`))
      await worker.waitUntilReady()
    },
    async close() {
      await worker?.close(true)
      await queue.close()
    },
  }
}
