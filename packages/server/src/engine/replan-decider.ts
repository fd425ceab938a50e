/**
 * Decides a batch of a replan (engine/replanner.ts): compiles each schedule with the present data and asks
 * domain/replan.ts. What only history can tell is asked for all in one query, and for few: those whose
 * awaited time the new data may pass over.
 */
import { type ReplanAnswer, replan } from '../domain/replan.ts'
import { compileStored } from '../domain/stored-schedule.ts'
import type { DecideBatch, ReplanDecision, ReplanItem } from '../ports/replans.ts'
import type { ZoneSource } from '../ports/zones.ts'

export async function decideReplans(
  { items, nowMs, onRecord }: Parameters<DecideBatch>[0],
  zones: ZoneSource,
): Promise<Map<string, ReplanDecision>> {
  const answers = new Map(items.map((item) => [item.plan.scheduleId, answerFor(item, nowMs, zones)]))
  const asked = [...answers].flatMap(([id, answer]) =>
    answer.kind === 'asks' ? [[id, answer.fromMs] as const] : [],
  )
  const recorded = asked.length === 0 ? new Set<string>() : await onRecord(new Map(asked))
  const decisions = new Map<string, ReplanDecision>()
  for (const [id, answer] of answers) {
    if (answer.kind !== 'asks') decisions.set(id, answer)
    else decisions.set(id, recorded.has(id) ? answer.ifOnRecord : answer.otherwise)
  }
  return decisions
}

type Failed = Extract<ReplanDecision, { kind: 'failed' }>

function answerFor(
  { plan, timer, sinceMs }: ReplanItem,
  nowMs: number,
  zones: ZoneSource,
): ReplanAnswer | Failed {
  try {
    const times = compileStored(plan, zones)
    if (!times.ok) return { kind: 'failed', error: times.error }
    return replan({ policy: plan, times: times.value, timer, nowMs, sinceMs })
  } catch (error) {
    return { kind: 'failed', error: error instanceof Error ? error.message : String(error) }
  }
}
