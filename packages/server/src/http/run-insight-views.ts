/**
 * The timeline of a run as the contract describes it, and the facts that it and the explanation go by, taken
 * from a run as it was read.
 */
import type { RunExplanation, TimelineEntry } from '@belfry/contract'
import { maxShownAttempts } from '@belfry/contract'
import type { Hold, Standing } from '../domain/run-insight/explain-run.ts'
import type { Gathering } from '../domain/run-insight/gathering-words.ts'
import { explainRun } from '../domain/run-insight/explain-run.ts'
import type { RunInsightFacts } from '../domain/run-insight/facts.ts'
import { timelineOf } from '../domain/run-insight/timeline.ts'
import type { RunRecord } from '../ports/catalog.ts'

const iso = (instantMs: number): string => new Date(instantMs).toISOString()
const isoOrNull = (instantMs: number | null): string | null => (instantMs === null ? null : iso(instantMs))

/** Of a run that was read with at least `maxShownAttempts` of its attempts. */
export function insightFacts(run: RunRecord): RunInsightFacts {
  const most = run.present === null ? maxShownAttempts : maxShownAttempts - 1
  const tried = run.attemptList.slice(0, most).toReversed()
  return { ...run, tried, olderAttempts: run.attemptsEnded - tried.length }
}

export function timelineView(run: RunRecord): TimelineEntry[] {
  return timelineOf(insightFacts(run)).map(({ kind, atMs, untilMs, over, reason, attempt, words }) => ({
    kind,
    at: iso(atMs),
    until: isoOrNull(untilMs),
    over,
    reason,
    attempt,
    words,
  }))
}

/** What is read of a run that has not ended, besides itself. */
export interface NowOfRun {
  readonly standing: Standing | null
  readonly hold: Hold | null
  readonly gathering: Gathering | null
}

export function runExplanationView(run: RunRecord, { standing, hold, gathering }: NowOfRun): RunExplanation {
  const { afterRunId, dependsOn, rule, queue, startByMs } = run
  const about = { afterRunId, dependsOn, rule, queue }
  const facts = { ...insightFacts(run), ...about, startByMs, hold, gathering, standing }
  const { verdict, message, sinceMs, clearsAtMs, fix, runIds, workerId, place } = explainRun(facts)
  return {
    runId: run.id,
    job: run.jobName,
    state: run.state,
    reason: run.reason,
    verdict,
    message,
    since: isoOrNull(sinceMs),
    clearsAt: isoOrNull(clearsAtMs),
    fix,
    runIds: [...runIds],
    workerId,
    place,
    now: iso(run.nowMs),
  }
}
