/**
 * The endpoint that explains a schedule: reads how it stands, also of one that was deleted, and has it
 * explained (engine/catalog/explainer.ts).
 */
import { maxExplainedTimes } from '@belfry/contract'
import type { ScheduleFacts } from '../../domain/explanation/facts.ts'
import { compileStored } from '../../domain/stored-schedule.ts'
import { columnOf } from '../../domain/stored-spec.ts'
import type { ZoneRules } from '../../domain/zone/zone-rules.ts'
import { stretchOf } from '../../engine/catalog/explain-stretch.ts'
import { explain } from '../../engine/catalog/explainer.ts'
import { readingOf } from '../../engine/catalog/timing-notes.ts'
import type { ExplainedSchedule } from '../../ports/explanations.ts'
import type { ScheduleRecord } from '../../ports/schedule-store.ts'
import type { ZoneSource } from '../../ports/zones.ts'
import type { Endpoints } from '../endpoint.ts'
import { explanationView } from '../explanation-view.ts'
import { noSuch } from '../missing.ts'

const dayMs = 86_400_000

export const explanationEndpoints: Pick<Endpoints, 'scheduleExplain'> = {
  scheduleExplain: {
    as: 'tenant',
    async answer({ tx, tools, params, query }) {
      const { zones, retentionDays } = tools
      const found = await tx.explanations.find(params.id)
      if (found === undefined) throw noSuch('schedule', params.id)
      const current = await tx.schedules.find(params.id)
      const compiled =
        current === undefined
          ? undefined
          : compileStored({ ...current, spec: columnOf(current.spec), scheduleId: current.id }, zones)
      const times = compiled?.ok === true ? compiled.value : null
      const nowMs = await tx.nowMs()
      const zone = zoneOf(zones, times?.zoneName ?? found.zone)
      const facts = factsOf(found, current)
      const keptFromMs = (Math.floor(nowMs / dayMs) - retentionDays) * dayMs
      const moment = { nowMs, keptFromMs, retentionDays, dataVersion: zones.dataVersion, zone }
      const { at, from, to } = query
      const ask = { at, fromMs: instantOf(from), toMs: instantOf(to) }
      const sinceMs = found.createdAtMs
      const stretch = stretchOf(ask, zone, times, { nowMs: found.deletedAtMs ?? nowMs, sinceMs })
      const subject = { scheduleId: params.id, facts, times, moment }
      const limit = Math.min(query.limit, maxExplainedTimes)
      const draft = await explain(tx.explanations, subject, stretch, limit)
      const words = current === undefined ? null : readingOf(current, zones).words
      return { body: explanationView(draft, subject, { name: found.name, words }) }
    },
  },
}

const instantOf = (text: string | undefined): number | undefined =>
  text === undefined ? undefined : Date.parse(text)

/** A zone that the data has no longer is told in UTC. */
function zoneOf(zones: ZoneSource, name: string): ZoneRules {
  const zone = zones.get(name) ?? zones.get('UTC')
  if (zone === undefined) throw new Error('the zone data has no UTC')
  return zone
}

function factsOf(found: ExplainedSchedule, current: ScheduleRecord | undefined): ScheduleFacts {
  const { createdAtMs, deletedAtMs, endedItself, timingSinceMs, runLimit, runCount } = found
  const since = { createdAtMs, deletedAtMs, endedItself, timingSinceMs }
  if (current !== undefined) return { ...current, ...since }
  return {
    ...since,
    state: 'deleted',
    startAtMs: null,
    endAtMs: null,
    pausedAtMs: null,
    pausedFromMs: null,
    pausedReason: null,
    sleep: null,
    runLimit,
    runCount,
    next: null,
    overlap: 'skip',
    catchUp: { policy: 'latest', windowMs: 0, maxRuns: 0 },
  }
}
