/**
 * A timer as a member of a sorted set: its id, and the rest as a JSON list that begins with the due
 * instant. What is read back is believed only as far as it has this form: Redis may hold anything.
 */
import { z } from 'zod'
import type { DueTimer } from '../../ports/timer-index.ts'

const idLength = 36
const id = z.uuid()
const rest = z.union([
  z.tuple([z.number(), z.literal('s'), z.uuid(), z.number(), z.int()]),
  z.tuple([z.number(), z.literal('r'), z.uuid(), z.string(), z.int(), z.number()]),
])

export function timerText(timer: DueTimer): string {
  const { dueAtMs, tenantId } = timer
  const list =
    timer.kind === 'schedule'
      ? [dueAtMs, 's', tenantId, timer.scheduledForMs, timer.gen]
      : [dueAtMs, 'r', tenantId, timer.queue, timer.priority, timer.tenantWeight]
  return timer.id + JSON.stringify(list)
}

/** Undefined for what is no timer. */
export function parseTimer(text: string, shard: number): DueTimer | undefined {
  const parsedId = id.safeParse(text.slice(0, idLength))
  const parsed = rest.safeParse(jsonOf(text.slice(idLength)))
  if (!parsedId.success || !parsed.success) return undefined
  const [dueAtMs, kind, tenantId] = parsed.data
  const common = { id: parsedId.data, tenantId, shard, dueAtMs }
  if (kind === 's') {
    const [, , , scheduledForMs, gen] = parsed.data
    return { kind: 'schedule', ...common, scheduledForMs, gen }
  }
  const [, , , queue, priority, tenantWeight] = parsed.data
  return { kind: 'run', ...common, queue, priority, tenantWeight }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
