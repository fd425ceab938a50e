/**
 * How a schedule stands now, in a sentence or two: the answer to "when will this run next?". The fields and
 * values that it names are those of the API.
 */
import type { ExplainMoment, ScheduleFacts } from './facts.ts'
import { instantWords, spanWords } from './time-words.ts'
import { completed } from './verdict-words.ts'

export function standingWords(schedule: ScheduleFacts, moment: ExplainMoment): string {
  const tell = (instantMs: number): string => instantWords(instantMs, moment.zone)
  const { deletedAtMs, pausedAtMs, pausedReason, sleep } = schedule
  const because = (reason: string | null): string => (reason === null || reason === '' ? '' : `: ${reason}`)
  switch (schedule.state) {
    case 'deleted':
      return `It was deleted${deletedAtMs === null ? '' : ` on ${tell(deletedAtMs)}`}; its history stays.`
    case 'completed':
      return completed(schedule, moment).message
    case 'paused': {
      const since = pausedAtMs === null ? '' : ` since ${tell(pausedAtMs)}`
      return `It is paused${since}${because(pausedReason)}. What falls due meanwhile does not run.`
    }
    case 'active':
      return sleep !== null && sleep.untilMs > moment.nowMs
        ? `It is asleep until ${tell(sleep.untilMs)}${because(sleep.reason)}. What comes before is skipped.`
        : activeWords(schedule, moment)
  }
}

function activeWords({ next }: ScheduleFacts, moment: ExplainMoment): string {
  if (next === null) return 'It is active, and nothing is planned.'
  const aheadMs = next.dueAtMs - moment.nowMs
  const delayMs = next.dueAtMs - next.scheduledForMs
  const when = aheadMs > 0 ? `in ${spanWords(aheadMs)}` : 'now'
  const delay = delayMs > 0 ? `, ${spanWords(delayMs)} later by its delay` : ''
  return `It is active; next is ${instantWords(next.scheduledForMs, moment.zone)}${delay}, ${when}.`
}
