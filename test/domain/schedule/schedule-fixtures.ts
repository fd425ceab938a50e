// Shared by the schedule tests: the bundled zones (so that results do not depend on the machine's data),
// compiling in one line, and lists of next times as text.

import { openZoneSource } from '../../../packages/server/src/adapters/zones/zone-source.ts'
import type {
  CompiledSchedule,
  ScheduleBounds,
  ScheduleSpec,
} from '../../../packages/server/src/domain/schedule/schedule-spec.ts'
import { compileScheduleIn } from '../../../packages/server/src/domain/schedule/schedule-spec.ts'
import type { ScheduleFault } from '../../../packages/server/src/domain/schedule/schedule-fault.ts'
import type { ZoneRules } from '../../../packages/server/src/domain/zone/zone-rules.ts'

export const zones = openZoneSource({ directories: [] })

export function zone(name: string): ZoneRules {
  const rules = zones.get(name)
  if (!rules) throw new Error(`the bundled data has no zone ${name}`)
  return rules
}

export function cronSpec(expression: string, zoneName = 'UTC'): ScheduleSpec {
  return { kind: 'cron', dialect: 'unix', expression, zone: zoneName }
}

export function compiled(spec: ScheduleSpec, bounds?: ScheduleBounds): CompiledSchedule {
  const result = compileScheduleIn(spec, zones, bounds)
  if (!result.ok) throw new Error(`refused: ${JSON.stringify(result.error)}`)
  return result.value
}

export function faultsOf(spec: ScheduleSpec, bounds?: ScheduleBounds): readonly ScheduleFault[] {
  const result = compileScheduleIn(spec, zones, bounds)
  return result.ok ? [] : result.error
}

export function instant(text: string): number {
  const ms = Date.parse(text)
  if (Number.isNaN(ms)) throw new Error(`not an instant: ${text}`)
  return ms
}

export function iso(ms: number): string {
  return new Date(ms).toISOString().replace('.000Z', 'Z')
}

/** Up to `count` planned times strictly after `from`. */
export function nextTimes(schedule: CompiledSchedule, from: string, count: number): string[] {
  const times: string[] = []
  let afterMs: number | null = instant(from)
  while (times.length < count) {
    afterMs = schedule.next(afterMs)
    if (afterMs === null) break
    times.push(iso(afterMs))
  }
  return times
}
