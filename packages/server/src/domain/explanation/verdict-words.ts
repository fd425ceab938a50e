/**
 * The sentences of an explanation: what became of a planned time, and what to change so that it will be
 * otherwise. Written once, so that the API, the command line and the UI say the same. Fields and values are
 * named as in the API.
 */
import type { OccurrenceReason } from '@belfry/contract'
import type { ExplainMoment, KnownTimes, RecordFacts, RunFacts, ScheduleFacts } from './facts.ts'
import { instantWords, spanWords } from './time-words.ts'

interface Words {
  readonly message: string
  readonly fix: string | null
}

const afterAll = 'A backfill over this time runs it after all.'
const stays =
  'The timing of today does not plan this time, so a backfill does not run it: trigger a run for it.'

/** Less late than this is on time. */
const onTimeMs = 1_000

export function ran(record: RecordFacts, moment: ExplainMoment): Words {
  const { run, dueAtMs, firedAtMs, runId, backfillId } = record
  const began = backfillId === null ? 'It ran' : `The backfill ${backfillId} ran it`
  const lateMs = (run?.startedAtMs ?? firedAtMs) - dueAtMs
  const late = lateMs < onTimeMs ? 'on time' : `${spanWords(lateMs)} late`
  if (run === null) {
    return { message: `${began}, ${late}; the run ${runId ?? ''} is not kept any more.`, fix: null }
  }
  const started = run.startedAtMs === null ? '' : ` Started ${late}.`
  return { message: `${began}: ${runWords(run)}.${started}`, fix: runFix(run, dueAtMs, moment) }
}

/** "the run 019a… failed (attempts_exhausted)", "the workflow run 019a… failed". */
export function runWords({ id, ofWorkflow, state, reason }: RunFacts): string {
  const why = reason === null ? '' : ` (${reason})`
  const states: Readonly<Record<RunFacts['state'], string>> = {
    waiting_for_dependencies: 'waits for others',
    pending: 'waits to start',
    running: 'is running',
    succeeded: 'succeeded',
    failed: `failed${why}`,
    canceled: `was canceled${why}`,
    skipped: 'was skipped',
    upstream_failed: 'did not start, as another one failed before it',
  }
  return `the ${ofWorkflow ? 'workflow run' : 'run'} ${id} ${states[state]}`
}

function runFix(
  { id, ofWorkflow, state }: RunFacts,
  dueAtMs: number,
  { nowMs }: ExplainMoment,
): string | null {
  const late = state === 'pending' && nowMs - dueAtMs >= 10_000
  const wrong = state === 'failed' || state === 'canceled'
  if (ofWorkflow) return wrong || late ? `See why, task by task: belfry workflow-run explain ${id}.` : null
  if (wrong) return `The attempts of the run ${id} say why.`
  if (!late) return null
  return 'It waits for a free slot, its retry delay or the run before it: more workers or slots help.'
}

/** Of a row that is skipped or missed; a backfill goes by the timing of today, which may not plan it. */
export function leftOut(
  record: RecordFacts,
  schedule: ScheduleFacts,
  moment: ExplainMoment,
  isPlanned: boolean,
): Words {
  const { outcome, reason, detail, missedCount } = record
  const { why, fix } = reasonWords(reason, detail, schedule)
  const verb = outcome === 'missed' ? 'was missed' : 'was skipped'
  const many =
    missedCount > 1
      ? ` This row stands for ${missedCount.toLocaleString('en')} planned times from here on.`
      : ''
  const decided = moment.nowMs - record.firedAtMs
  const late = record.firedAtMs - record.dueAtMs
  const when =
    outcome === 'missed' && decided >= 0 ? ` It was looked at ${spanWords(Math.max(0, late))} late.` : ''
  const message = `It ${verb}: ${why}.${when}${many}`
  return { message, fix: isPlanned ? fix : (fix?.replace(afterAll, stays) ?? null) }
}

export function summed({ schedule }: { readonly schedule: ScheduleFacts } & At, sum: RecordFacts): Words {
  const { why, fix } = reasonWords(sum.reason, sum.detail, schedule)
  return {
    message:
      `It is one of ${sum.missedCount.toLocaleString('en')} planned times that share a row, ` +
      `${sum.outcome}: ${why}.`,
    fix,
  }
}

function reasonWords(
  reason: OccurrenceReason | null,
  detail: string | null,
  { overlap, catchUp, runLimit }: ScheduleFacts,
): { readonly why: string; readonly fix: string | null } {
  const said = because(detail)
  switch (reason) {
    case 'overlap':
      return {
        why: 'the run before it was still alive, or a newer time came due with it',
        fix:
          overlap === 'skip'
            ? 'Set "overlap" to "buffer_one" or "allow", or make the runs shorter. ' + afterAll
            : `"overlap" is "${overlap}" now: "buffer_all" or "allow" leave out less. ${afterAll}`,
      }
    case 'buffer_full':
      return {
        why: 'as many runs of the schedule as may wait were waiting already',
        fix: 'Runs outlast the time between them: plan fewer, make them shorter, or let them overlap.',
      }
    case 'asleep':
      return { why: `the schedule was asleep${said}`, fix: afterAll }
    case 'calendar':
      return {
        why: detail ?? 'a calendar excludes it',
        fix: 'Change the calendar, or take it off the schedule.',
      }
    case 'paused':
      return { why: `the schedule was paused${said}`, fix: afterAll }
    case 'run_limit':
      return {
        why: 'the limit of runs had been reached',
        fix: `"runLimit" is ${runLimit ?? 'not set'} now: raise it, or take it away.`,
      }
    case 'catch_up_latest':
      return {
        why: 'when it was looked at a newer planned time had come due, and "catchUp" ran only the latest',
        fix: catchUp.policy === 'all' ? afterAll : `Set "catchUp.policy" to "all". ${afterAll}`,
      }
    case 'catch_up_none':
      return {
        why: 'it was looked at more than a minute late, and "catchUp" ran nothing late',
        fix: catchUp.policy === 'none' ? `Set "catchUp.policy" to "latest" or "all". ${afterAll}` : afterAll,
      }
    case 'catch_up_window':
      return {
        why: 'it was looked at later than "catchUp" reaches back, or more came due than it runs at once',
        fix: `Raise "catchUp.windowMs" or "catchUp.maxRuns". ${afterAll}`,
      }
    case null:
      return { why: 'nobody knows why', fix: null }
  }
}

type At = { readonly moment: ExplainMoment }

const tell = (instantMs: number, { zone }: ExplainMoment): string => instantWords(instantMs, zone)

export function beforeStart(startAtMs: number, moment: ExplainMoment): Words {
  return {
    message: `It lies before the start of the schedule, ${tell(startAtMs, moment)}.`,
    fix: 'An earlier "startAt" plans it.',
  }
}

export function afterEnd(endAtMs: number, moment: ExplainMoment): Words {
  return {
    message: `It lies at or after the end of the schedule, ${tell(endAtMs, moment)}.`,
    fix: 'A later "endAt", or none, plans it.',
  }
}

export function beforeCreation(createdAtMs: number, moment: ExplainMoment): Words {
  return {
    message: `The schedule was made on ${tell(createdAtMs, moment)} and plans what comes after that.`,
    fix: afterAll,
  }
}

/** What will become of it, as the schedule stands. */
export function notYet(
  { state, sleep, pausedAtMs, runLimit, runCount }: ScheduleFacts,
  times: KnownTimes,
  moment: ExplainMoment,
  timeMs: number,
): Words {
  const begin = `It comes in ${spanWords(timeMs - moment.nowMs)}`
  if (state === 'paused' && pausedAtMs !== null)
    return {
      message: `${begin}, and will not run while the schedule is paused.`,
      fix: 'Resume the schedule.',
    }
  if (state === 'completed') {
    const spent = runLimit !== null && runCount >= runLimit
    return {
      message: `${begin}, and will not run: the schedule is completed.`,
      fix: spent ? 'Raise "runLimit", or take it away.' : 'Give the schedule a timing that goes on.',
    }
  }
  const excluded = times?.exclusionOf?.(timeMs) ?? null
  if (excluded !== null)
    return { message: `${begin}, and will be skipped: ${excluded.detail}.`, fix: 'Change the calendar.' }
  if (sleep !== null && timeMs < sleep.untilMs) {
    const why = sleep.reason === '' ? '' : ` (${sleep.reason})`
    const until = tell(sleep.untilMs, moment)
    return {
      message: `${begin}, and will be skipped: the schedule is asleep until ${until}${why}.`,
      fix: 'Wake the schedule.',
    }
  }
  return { message: `${begin}.`, fix: null }
}

export function pruned({ keptFromMs, retentionDays }: ExplainMoment): Words {
  const day = new Date(keptFromMs).toISOString().slice(0, 10)
  return {
    message: `History is kept for ${retentionDays} days, from ${day} on: what became of it is not known.`,
    fix: 'A longer "retentionDays" keeps more from now on.',
  }
}

export function olderTiming(timingSinceMs: number, moment: ExplainMoment): Words {
  const since = tell(timingSinceMs, moment)
  return {
    message:
      `The timing or a calendar was changed on ${since}. What was planned before is told by the record ` +
      'alone, and there is none for this time.',
    fix: null,
  }
}

/** It is none, or none any more, with the ones around it. */
export function notPlanned(
  { times, moment }: { readonly times: KnownTimes } & At,
  timeMs: number,
): Words & { readonly verdict: 'not_planned' } {
  const before = times?.previous(timeMs) ?? null
  const after = times?.next(timeMs) ?? null
  const around = [
    ...(before === null ? [] : [`the one before is ${tell(before, moment)}`]),
    ...(after === null ? [] : [`the one after is ${tell(after, moment)}`]),
  ]
  const rest = around.length === 0 ? 'there is none at all' : around.join(', ')
  return { verdict: 'not_planned', message: `It is not a planned time: ${rest}.`, fix: null }
}

/** " on Mon …, by itself when it completed: it has started 3 of 3 runs". */
export function deletedWords(schedule: ScheduleFacts, moment: ExplainMoment): string {
  const { deletedAtMs, endedItself } = schedule
  const when = deletedAtMs === null ? '' : ` on ${tell(deletedAtMs, moment)}`
  return endedItself ? `${when}, by itself when it completed: ${completedBy(schedule, moment)}` : when
}

export function deleted(schedule: ScheduleFacts, gone: boolean, moment: ExplainMoment): Words {
  const when = deletedWords(schedule, moment)
  const before = 'Of the time before only the record is left, and it has nothing here.'
  return {
    message: gone
      ? `The schedule was deleted${when}; it plans nothing since.`
      : `The schedule was deleted${when}. ${before}`,
    fix: null,
  }
}

export function unreadable(): Words {
  return {
    message: 'The timing of the schedule cannot be read, and there is no record of this time.',
    fix: 'Give the schedule a new timing.',
  }
}

export function paused({ pausedAtMs, pausedReason }: ScheduleFacts, moment: ExplainMoment): Words {
  const since = pausedAtMs === null ? '' : ` since ${tell(pausedAtMs, moment)}`
  const why = because(pausedReason)
  return {
    message: `It does not run: the schedule is paused${since}${why}.`,
    fix: 'Resume the schedule; with "backfillFrom" at or before this time it runs after all.',
  }
}

export function waiting(dueAtMs: number, timeMs: number, moment: ExplainMoment): Words {
  return {
    message:
      `It starts in ${spanWords(dueAtMs - moment.nowMs)}: a jitter or a flexible window delays it by ` +
      `${spanWords(dueAtMs - timeMs)}.`,
    fix: null,
  }
}

export function due(timeMs: number, { nowMs }: ExplainMoment): Words {
  const lateMs = nowMs - timeMs
  if (lateMs < 5_000) return { message: 'It is due now.', fix: null }
  return {
    message:
      `It is due for ${spanWords(lateMs)} and was not looked at yet: no scheduler leads its shard, or it ` +
      'is behind.',
    fix: 'See that a process with the role scheduler runs and is ready: /readyz?verbose tells.',
  }
}

/** Why it is completed. */
export function completed(schedule: ScheduleFacts, moment: ExplainMoment): Words {
  return { message: `The schedule is completed: ${completedBy(schedule, moment)}.`, fix: null }
}

function completedBy({ runLimit, runCount, endAtMs }: ScheduleFacts, moment: ExplainMoment): string {
  if (runLimit !== null && runCount >= runLimit)
    return `it has started ${runCount.toLocaleString('en')} of ${runLimit.toLocaleString('en')} runs`
  const ended = endAtMs !== null && endAtMs <= moment.nowMs
  return ended ? `its end, ${tell(endAtMs, moment)}, is over` : 'no planned time is left'
}

export function noRecord({ moment }: At): Words {
  return {
    message:
      'There is no record of it, although it is planned now: by the calendars or the time zone data of ' +
      `then it was not (today's data is ${moment.dataVersion}).`,
    fix: null,
  }
}

/** What somebody gave as a reason, behind a colon and without its full stop: another one follows. */
export const because = (reason: string | null): string =>
  reason === null || reason === '' ? '' : `: ${reason.replace(/\.$/, '')}`
