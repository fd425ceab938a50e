// What tests of replans share: schedules in zones whose next times were computed by given zone data,
// replanners as processes have them, and a look at what stands there. SQL here arranges and looks, as the
// superuser.
import { systemRandom } from '../../packages/server/src/adapters/system/ids.ts'
import { plannedTimeAfter } from '../../packages/server/src/domain/firing.ts'
import { compileStored } from '../../packages/server/src/domain/stored-schedule.ts'
import { createLocalHints } from '../../packages/server/src/engine/local-hints.ts'
import { createReplanner, type Replanner } from '../../packages/server/src/engine/replanner.ts'
import type { Hint } from '../../packages/server/src/ports/hints.ts'
import type { ZoneSource } from '../../packages/server/src/ports/zones.ts'
import type { Database } from '../../packages/server/src/postgres/database.ts'
import { createPostgresReplans } from '../../packages/server/src/postgres/replans.ts'
import { realClock } from './real-clock.ts'
import { ids, newId, type RecordedEvent, type SchedulingFixture } from './scheduling.ts'
import { fixedZone, zonesOf } from './zone-trees.ts'

export type ZonedSeed = {
  readonly zone: string
  readonly zones: ZoneSource
  readonly spec?: object
  /** After which the next time is computed. */
  readonly afterMs: number
  readonly jitterMs?: number
  readonly count?: number
}

export type ZonedRow = {
  readonly zone_data_version: string
  readonly gen: number
  readonly version: number
  readonly state: string
  readonly scheduled_for: Date | null
  readonly due_at: Date | null
  readonly timer_gen: number | null
}

export type TestReplanner = {
  readonly replanner: Replanner
  readonly events: RecordedEvent[]
  readonly hints: Hint[]
}

/** Schedules at 09:00 every day, if nothing else is said; answers their ids. */
export async function addZoned(fixture: SchedulingFixture, seed: ZonedSeed): Promise<string[]> {
  const { zone, zones, afterMs, jitterMs = 0, count = 1 } = seed
  const spec = seed.spec ?? { cron: '0 9 * * *', dialect: 'unix' }
  const made = Array.from({ length: count }, () => newId())
  const times = made.map((scheduleId) => {
    const stored = { scheduleId, spec, zone, startAtMs: null, endAtMs: null }
    const compiled = compileStored(stored, zones)
    if (!compiled.ok) throw new Error(compiled.error)
    const next = plannedTimeAfter({ scheduleId, jitterMs, flexibleWindowMs: 0 }, compiled.value, afterMs)
    if (next === null) throw new Error('the schedule has no next time')
    return next
  })
  await fixture.database.sql(
    `WITH given AS (
       SELECT * FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[]) AS given (id, at, due)
     ), made AS (
       INSERT INTO belfry.schedule
         (id, tenant_id, name, job_id, spec, zone, zone_data_version, jitter_ms, catch_up, overlap,
          created_at, updated_at)
       SELECT id, $4, 's-' || id, $5, $6, $7, $8, $9, $10, 'allow', $11, $11 FROM given
     )
     INSERT INTO belfry.timer (schedule_id, tenant_id, due_at, scheduled_for, gen, shard)
     SELECT id, $4, due, at, 1, belfry.shard_of(id) FROM given`,
    [
      made,
      times.map(({ scheduledForMs }) => new Date(scheduledForMs)),
      times.map(({ dueAtMs }) => new Date(dueAtMs)),
      fixture.tenantId,
      fixture.jobId,
      spec,
      zone,
      zones.dataVersion,
      jitterMs,
      { policy: 'latest', windowMs: 86_400_000, maxRuns: 100 },
      new Date(afterMs),
    ],
  )
  return made
}

export async function zonedRow(fixture: SchedulingFixture, id: string): Promise<ZonedRow> {
  const [row] = await fixture.database.sql<ZonedRow>(
    `SELECT s.zone_data_version, s.gen::int AS gen, s.version, s.state, t.scheduled_for, t.due_at,
            t.gen::int AS timer_gen
     FROM belfry.schedule s LEFT JOIN belfry.timer t ON t.schedule_id = s.id WHERE s.id = $1`,
    [id],
  )
  if (row === undefined) throw new Error(`there is no schedule ${id}`)
  return row
}

/** A replanner with the zone data of a process, its events and its hints. */
export function makeReplanner(
  db: Database,
  zones: ZoneSource,
  more: { readonly batchSize?: number; readonly intervalMs?: number } = {},
): TestReplanner {
  const events: RecordedEvent[] = []
  const hints: Hint[] = []
  const local = createLocalHints()
  const replanner = createReplanner({
    store: createPostgresReplans(db),
    zones,
    ids,
    hints: { ...local, publish: (hint) => void hints.push(hint) },
    clock: realClock,
    random: systemRandom,
    events: { emit: (name, payload) => void events.push({ name, payload }) },
    nodeId: newId(),
    ...more,
  })
  return { replanner, events, hints }
}

/** 09:00 in Berlin is 08:00 UTC where it is an hour ahead. */
export const berlin = 'Europe/Berlin'
export const tokyo = 'Asia/Tokyo'

/** Berlin is so many hours ahead of UTC for ever; the other zones are as bundled. */
export const berlinAt = (version: string, hours: number): ZoneSource =>
  zonesOf({ version, zones: [berlin, tokyo, 'America/New_York'], altered: { [berlin]: fixedZone(hours) } })

export type ReplanLine = {
  readonly subject: string
  readonly state: string
  readonly done: number
  readonly moved: number
  readonly failed: number
}

/** All replans, by the release or version that they are for. */
export const readReplans = ({ database }: Pick<SchedulingFixture, 'database'>): Promise<ReplanLine[]> =>
  database.sql<ReplanLine>(
    `SELECT subject, state, from_version, to_version, total::int AS total, done::int AS done,
            moved::int AS moved, failed::int AS failed, error
     FROM belfry.replan ORDER BY to_version, subject DESC`,
  )
