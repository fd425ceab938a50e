/**
 * Makes the run that somebody asked for: what it takes over from its job, when it is due, and its place in
 * the fair order if it may start at once. Pure but for the tag, of which each call uses up one.
 */
import type { JsonValue, RunSource } from '@belfry/contract'
import type { TagClock } from '../../domain/fair-queue.ts'
import type { NewRun, RunTemplate } from '../../ports/catalog.ts'
import type { Ids } from '../../ports/ids.ts'

export interface WantedRun {
  readonly source: RunSource
  readonly scheduleId: string | null
  readonly input: JsonValue | undefined
  /** Null: now. */
  readonly runAtMs: number | null
  /** Instead of the job's. */
  readonly queue?: string | undefined
  readonly priority?: number | undefined
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
    source: wanted.source,
    queue,
    priority,
    input: wanted.input,
    dueAtMs,
    start:
      dueAtMs > nowMs
        ? { kind: 'delayed' }
        : { kind: 'ready', tag: tags.next({ queue, tenantId, weight: template.tenantWeight, priority }) },
  }
}
