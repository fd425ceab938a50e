/**
 * How a schedule stands now, in a sentence or two: the answer to "when will this run next?". The fields and
 * values that it names are those of the API.
 */
import type { ExplainMoment, ScheduleFacts } from './facts.ts'
import { instantWords, spanWords } from './time-words.ts'
import { because, completed, deletedWords } from './verdict-words.ts'

/** The next time that runs, from the planned one on. */
export interface RunsNext {
  /** Null: none is left, or none was found. */
  readonly atMs: number | null
  /** Where the search for one ended too early; null where it did not. */
  readonly lookedToMs: number | null
  /** Why a calendar leaves the planned one out; null where none does. */
  readonly leftOut: string | null
}

/** `runs` is null where the timing cannot be read, or nothing is planned. */
export function standingWords(schedule: ScheduleFacts, moment: ExplainMoment, runs: RunsNext | null): string {
  const tell = (instantMs: number): string => instantWords(instantMs, moment.zone)
  const { pausedAtMs, pausedReason, sleep } = schedule
  switch (schedule.state) {
    case 'deleted':
      return `It was deleted${deletedWords(schedule, moment)}; its history stays.`
    case 'completed':
      return completed(schedule, moment).message
    case 'paused': {
      const since = pausedAtMs === null ? '' : ` since ${tell(pausedAtMs)}`
      return `It is paused${since}${because(pausedReason)}. What falls due meanwhile does not run.`
    }
    case 'active':
      return sleep !== null && sleep.untilMs > moment.nowMs
        ? `It is asleep until ${tell(sleep.untilMs)}${because(sleep.reason)}. What comes before is skipped` +
            `${runs === null ? '' : `; ${nextWords(runs, moment)}`}.`
        : activeWords(schedule, moment, runs)
  }
}

function activeWords({ next, sleep }: ScheduleFacts, moment: ExplainMoment, runs: RunsNext | null): string {
  if (next === null) return 'It is active, and nothing is planned.'
  if (runs !== null && runs.atMs !== next.scheduledForMs) {
    const slept =
      sleep === null ? 'it does not run' : `it was asleep until ${instantWords(sleep.untilMs, moment.zone)}`
    const planned = instantWords(next.scheduledForMs, moment.zone)
    return `It is active; ${nextWords(runs, moment)}. ${planned} does not run: ${runs.leftOut ?? slept}.`
  }
  const delayMs = next.dueAtMs - next.scheduledForMs
  const when = distanceWords(next.dueAtMs, moment)
  const delay = delayMs > 0 ? `, ${spanWords(delayMs)} later by its delay` : ''
  return `It is active; next is ${instantWords(next.scheduledForMs, moment.zone)}${delay}, ${when}.`
}

function nextWords({ atMs, lookedToMs }: RunsNext, moment: ExplainMoment): string {
  const tell = (instantMs: number): string => instantWords(instantMs, moment.zone)
  if (atMs !== null) return `next is ${tell(atMs)}, ${distanceWords(atMs, moment)}`
  return lookedToMs === null ? 'nothing that runs is left' : `nothing up to ${tell(lookedToMs)} runs`
}

function distanceWords(instantMs: number, { nowMs }: ExplainMoment): string {
  return instantMs > nowMs ? `in ${spanWords(instantMs - nowMs)}` : 'now'
}
