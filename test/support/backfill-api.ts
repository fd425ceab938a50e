// What tests of backfills by the API share: the API on a settable clock with an hourly schedule, a backfiller
// whose steps are taken when a test says so, and runs that end as told.
import type { Backfill } from '@belfry/contract'
import { expect } from 'vitest'
import { type Answer, type CallOptions, httpJob, startTestApi, type TestApi } from './api.ts'
import { hour, makeBackfiller, noonMs, type TestBackfiller } from './backfilling.ts'
import { playWorker, type PlayedWorker } from './played-worker.ts'

export const iso = (atMs: number): string => new Date(atMs).toISOString()
export const backfillOf = ({ body }: Answer): Backfill => body as unknown as Backfill

export type BackfillApi = {
  readonly t: TestApi
  readonly worker: PlayedWorker
  readonly backfiller: TestBackfiller
  /** Of the schedule that is meant from now on. */
  scheduleId: string
  /** Makes another schedule, hourly if nothing else is said, and means that one. */
  readonly newSchedule: (timing?: object) => Promise<void>
  readonly create: (body: object, options?: CallOptions & { query?: string }) => Promise<Answer>
  /** One that has to be taken. */
  readonly started: (body: object) => Promise<Backfill>
  readonly get: (id: string) => Promise<Backfill>
  readonly act: (
    id: string,
    what: 'pause' | 'resume' | 'cancel',
    body?: object,
    headers?: Record<string, string>,
  ) => Promise<Answer>
  readonly aliveRuns: () => Promise<string[]>
  /** Runs of the first planned times, each ended as told. */
  readonly past: (...ends: readonly ('succeeded' | 'failed' | 'canceled' | 'alive')[]) => Promise<void>
}

export async function startBackfillApi(): Promise<BackfillApi> {
  const t = await startTestApi()
  await t.database.useVirtualNow(new Date(noonMs))
  const worker = playWorker(t.database)
  const backfiller = makeBackfiller(t.db)
  await t.call('POST', '/v1/jobs', { body: httpJob('report') })
  let made = 0

  const rig: BackfillApi = {
    t,
    worker,
    backfiller,
    scheduleId: '',
    async newSchedule(timing = { every: '1h', startAt: '2026-01-01T00:00:00Z' }) {
      const body = { name: `hourly-${made++}`, job: 'report', input: { month: 3 }, ...timing }
      rig.scheduleId = (await t.call('POST', '/v1/schedules', { body })).body.id
      t.hints.length = 0
    },
    create: (body, options = {}) =>
      t.call('POST', `/v1/schedules/${rig.scheduleId}/backfills${options.query ?? ''}`, { ...options, body }),
    async started(body) {
      const answer = await rig.create(body)
      expect(answer.body.detail ?? '').toBe('')
      return backfillOf(answer)
    },
    get: async (id) => backfillOf(await t.call('GET', `/v1/backfills/${id}`)),
    act: (id, what, body, headers = {}) =>
      t.call('POST', `/v1/backfills/${id}/${what}`, { ...(body === undefined ? {} : { body }), headers }),
    async aliveRuns() {
      const rows = await t.database.sql<{ run_id: string }>(
        `SELECT run_id FROM belfry.ready JOIN belfry.run ON run.id = run_id WHERE schedule_id = $1
         ORDER BY scheduled_for`,
        [rig.scheduleId],
      )
      return rows.map((row) => row.run_id)
    },
    async past(...ends) {
      await rig.started({ from: iso(hour(0)), to: iso(hour(ends.length)), concurrency: 100 })
      await backfiller.runOnce()
      for (const [index, runId] of (await rig.aliveRuns()).entries()) {
        const end = ends[index] ?? 'alive'
        await worker.claim(runId)
        if (end !== 'alive') await worker.end(runId, { outcome: end, state: end })
      }
      await backfiller.runOnce()
    },
  }
  return rig
}
