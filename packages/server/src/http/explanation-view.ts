/**
 * From an explanation to the body that the contract describes: instants become RFC 3339, in UTC and on the
 * wall clock of the schedule.
 */
import type { ExplainedTime, Explanation } from '@belfry/contract'
import { localText } from '../domain/explanation/time-words.ts'
import type { ZoneRules } from '../domain/zone/zone-rules.ts'
import type { ExplainedWithRuns, ExplainSubject, ExplanationDraft } from '../engine/catalog/explainer.ts'

const iso = (instantMs: number): string => new Date(instantMs).toISOString()
const isoOrNull = (instantMs: number | null): string | null => (instantMs === null ? null : iso(instantMs))

export function explanationView(
  draft: ExplanationDraft,
  { scheduleId, facts, moment }: ExplainSubject,
  { name, words }: { readonly name: string; readonly words: string | null },
): Explanation {
  const time = (explained: ExplainedWithRuns): ExplainedTime => timeView(explained, moment.zone)
  return {
    scheduleId,
    schedule: name,
    state: facts.state,
    standing: draft.standing,
    words,
    zone: moment.zone.name,
    now: iso(moment.nowMs),
    next: draft.next.map(time),
    from: iso(draft.fromMs),
    to: iso(draft.toMs),
    planned: draft.planned === null ? null : { ...draft.planned },
    times: draft.times.map(time),
    more: isoOrNull(draft.moreMs),
  }
}

function timeView(explained: ExplainedWithRuns, zone: ZoneRules): ExplainedTime {
  const { scheduledForMs, verdict, message, fix, note, record, runs } = explained
  return {
    scheduledFor: iso(scheduledForMs),
    local: localText(scheduledForMs, zone),
    verdict,
    message,
    fix,
    note,
    outcome: record?.outcome ?? null,
    reason: record?.reason ?? null,
    detail: record?.detail ?? null,
    missedCount: record?.missedCount ?? null,
    firedAt: isoOrNull(record?.firedAtMs ?? null),
    lateMs: record === null ? null : record.firedAtMs - record.dueAtMs,
    runs: runs.map(({ id, source, backfillId, state, reason, startedAtMs, finishedAtMs }) => ({
      id,
      source,
      backfillId,
      state,
      reason,
      startedAt: isoOrNull(startedAtMs),
      finishedAt: isoOrNull(finishedAtMs),
    })),
  }
}
