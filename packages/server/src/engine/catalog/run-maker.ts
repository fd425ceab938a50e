/**
 * Makes the run that somebody asked for: what it takes over from its job, when it is due, and its place in
 * the fair order if it may start at once. Pure but for the tag, of which each `makeRun` uses up one.
 */
import type { JsonValue, RunSource } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import type { TagClock } from '../../domain/fair-queue.ts'
import { type AskedLimits, limitsOf } from '../../domain/run-limits.ts'
import { laneOf, routeOf } from '../../domain/route.ts'
import type { Dependencies, NewRun, RunTemplate } from '../../ports/catalog.ts'
import type { Ids } from '../../ports/ids.ts'

/** How long a time may be over and still be taken as meant. */
export const pastGraceMs = 60_000

export interface WantedRun {
  readonly source: RunSource
  readonly scheduleId: string | null
  readonly input: JsonValue | undefined
  /** Null: now. */
  readonly runAtMs: number | null
  /** The planned time that it stands for; left out: none. */
  readonly scheduledForMs?: number | null | undefined
  /** Instead of the job's. */
  readonly queue?: string | undefined
  readonly priority?: number | undefined
  readonly limits?: AskedLimits | undefined
  /** Left out: it depends on no other run. */
  readonly dependencies?: Dependencies | undefined
}

/**
 * The time of a request that a run should wait for; null: now. Throws `invalid_request` for one that is over:
 * a mistyped year must not run at once.
 */
export function wantedStart(runAt: string | undefined, nowMs: number): number | null {
  if (runAt === undefined) return null
  const runAtMs = Date.parse(runAt)
  if (nowMs - runAtMs <= pastGraceMs) return runAtMs
  const times = `${new Date(runAtMs).toISOString()} was before now (${new Date(nowMs).toISOString()})`
  const message = `is over: ${times}; give a later time, or leave it out to run now`
  throw new BelfryError('invalid_request', `The time of the run ${message}.`, {
    errors: [{ pointer: '/runAt', message }],
  })
}

/** The lane in which a run of this job would wait: for the tags, before `makeRun` asks for one. */
export function laneOfRun(template: RunTemplate, tenantId: string, queue: string | undefined): string {
  const { definition } = template
  return laneOf(queue ?? definition.queue, routeOf(definition.handler, tenantId))
}

/**
 * The planned time that a trigger stands for. Throws `invalid_request` for one that lies ahead, which the
 * schedule runs by itself, by more than clocks differ.
 */
export function wantedNominal(scheduledFor: string | undefined, nowMs: number): number | null {
  if (scheduledFor === undefined) return null
  const scheduledForMs = Date.parse(scheduledFor)
  if (scheduledForMs - nowMs <= pastGraceMs) return scheduledForMs
  const now = new Date(nowMs).toISOString()
  const message = `lies ahead of now (${now}): what is planned ahead runs by itself; give a time that is over`
  throw new BelfryError('invalid_request', `The planned time of the run ${message}.`, {
    errors: [{ pointer: '/scheduledFor', message }],
  })
}

export function makeRun(
  parts: {
    readonly ids: Ids
    readonly tags: Pick<TagClock, 'next'>
    readonly tenantId: string
    readonly nowMs: number
  },
  template: RunTemplate,
  wanted: WantedRun,
): NewRun {
  const { ids, tags, tenantId, nowMs } = parts
  const queue = wanted.queue ?? template.definition.queue
  const priority = wanted.priority ?? template.definition.priority
  const dueAtMs = Math.max(nowMs, wanted.runAtMs ?? nowMs)
  return {
    id: ids.uuidv7(nowMs),
    template,
    scheduleId: wanted.scheduleId,
    scheduledForMs: wanted.scheduledForMs ?? null,
    source: wanted.source,
    queue,
    priority,
    input: wanted.input,
    dueAtMs,
    ...limitsOf(template.definition, wanted.limits ?? {}, dueAtMs),
    start: startOf(dueAtMs > nowMs, wanted.dependencies, () =>
      tags.next({
        queue: laneOfRun(template, tenantId, queue),
        tenantId,
        weight: template.tenantWeight,
        priority,
      }),
    ),
  }
}

function startOf(later: boolean, dependencies: Dependencies | undefined, tag: () => number): NewRun['start'] {
  if (dependencies !== undefined) return { kind: 'waiting', ...dependencies }
  return later ? { kind: 'delayed' } : { kind: 'ready', tag: tag() }
}
