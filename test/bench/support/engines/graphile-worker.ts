// graphile-worker at its best published settings: for throughput a local queue of 500 and batched completion,
// for early starts neither (the local queue delays what comes due).
import { Logger, makeWorkerUtils, type Runner, run } from 'graphile-worker'
import pg from 'pg'
import type { Engine, EngineOptions } from '../engine.ts'

const task = 'noop'
const stampOf = (payload: unknown): number => (payload as { atMs: number }).atMs

export async function openGraphileWorker({ place, purpose }: EngineOptions): Promise<Engine> {
  const pgPool = new pg.Pool({ connectionString: place.databaseUrl, max: 10 })
  // what goes wrong on a connection shows in the calls
  pgPool.on('error', () => undefined)
  pgPool.on('connect', (client) => client.on('error', () => undefined))
  const logger = new Logger(() => () => undefined)
  const utils = await makeWorkerUtils({ pgPool, logger })
  await utils.migrate()
  let runner: Runner | undefined
  const batched = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 }
  const worker = { concurrentJobs: 24, pollInterval: 2_000, ...(purpose === 'throughput' ? batched : {}) }
  return {
    async insertMany(count) {
      await utils.addJobs(Array.from({ length: count }, () => ({ identifier: task, payload: { atMs: 0 } })))
    },
    async insertOne(atMs) {
      await utils.addJob(task, { atMs })
    },
    async insertAt(atMs) {
      await utils.addJob(task, { atMs }, { runAt: new Date(atMs) })
    },
    async insertAllAt(due) {
      await utils.addJobs(due.map((atMs) => ({ identifier: task, payload: { atMs }, runAt: new Date(atMs) })))
    },
    async preload(count) {
      await pgPool.query(
        `SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
           SELECT json_populate_record(NULL::graphile_worker.job_spec,
                    json_build_object('identifier', $2::text, 'payload', json_build_object('atMs', 0)))
           FROM generate_series(1, $1::int)))`,
        [count, task],
      )
    },
    async work(heard) {
      const noop = (payload: unknown): void => heard(stampOf(payload))
      runner = await run({ pgPool, preset: { worker }, noHandleSignals: true, logger, taskList: { noop } })
    },
    async close() {
      await runner?.stop()
      await utils.release()
      await pgPool.end()
    },
  }
}
