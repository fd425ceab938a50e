/**
 * The evaluator as the commands use it: loaded only when one needs it, with the zone data of this machine.
 * And the one place where a word for a kind of schedule and its text become what the evaluator takes.
 */
import type * as Schedule from '@belfry/server/schedule'

export type Evaluator = typeof Schedule & { readonly zones: Schedule.ZoneSource }

export async function loadEvaluator(): Promise<Evaluator> {
  const module = await import('@belfry/server/schedule')
  return { ...module, zones: module.usualZones() }
}

/** Besides the dialects of cron. */
const otherKinds = ['rate', 'every', 'at']

/**
 * `kind` is a dialect of cron or an alias of one, `rate`, `every` (a rate or a calendar interval) or `at`.
 * Faults of a rate point at /rate, of the word itself at /dialect.
 */
export function scheduleInput(
  { findDialect, parseRate, CRON_DIALECT_NAMES }: Evaluator,
  kind: string,
  text: string,
): Schedule.Result<Schedule.ScheduleSpec, Schedule.ScheduleFault> {
  if (kind === 'at') return { ok: true, value: { kind, at: text } }
  if (kind === 'every' && /^\s*every\b/i.test(text))
    return { ok: true, value: { kind: 'calendar', every: text } }
  if (kind === 'rate' || kind === 'every') {
    const rate = parseRate(text)
    if (rate.ok) return { ok: true, value: { kind: 'rate', everyMs: rate.value } }
    const words = kind === 'every' ? '; or say it by the calendar, as in "every 2 weeks on fri at 09:00"' : ''
    return { ok: false, error: { ...rate.error, message: `${rate.error.message}${words}` } }
  }
  const dialect = findDialect(kind)
  if (dialect !== undefined) return { ok: true, value: { kind: 'cron', dialect, expression: text } }
  const shown = JSON.stringify(kind.length > 40 ? `${kind.slice(0, 40)}…` : kind)
  const known = [...CRON_DIALECT_NAMES, ...otherKinds].join(', ')
  return {
    ok: false,
    error: { pointer: '/dialect', message: `there is no dialect ${shown}: write one of ${known}` },
  }
}

const firstWritableMs = Date.parse('0001-01-01T00:00:00Z')
const endOfWritableMs = Date.UTC(10_000, 0, 1)

/** Years have four digits: what is planned outside them cannot be written, and is not listed. */
export const isWritable = (timeMs: number): boolean => timeMs >= firstWritableMs && timeMs < endOfWritableMs

/** "2026-03-29T01:00:00Z": UTC, to the second. */
export const utcText = (timeMs: number): string =>
  `${new Date(Math.floor(timeMs / 1_000) * 1_000).toISOString().slice(0, -5)}Z`
