/**
 * Which times an explanation is about: from what was asked ("2026-12-01T02:30", "yesterday", from and to, or
 * nothing at all) to instants. Pure.
 */
import { BelfryError } from '@belfry/contract'
import type { FireTimes } from '../../domain/fire-policy.ts'
import { parseAt } from '../../domain/schedule/at-time.ts'
import type { ZoneRules } from '../../domain/zone/zone-rules.ts'

export interface ExplainAsk {
  readonly at: string | undefined
  readonly fromMs: number | undefined
  readonly toMs: number | undefined
}

/** `moment`: one time; `note`: how its wall time was read. `stretch`: [fromMs, toMs). */
export type Stretch =
  | { readonly kind: 'moment'; readonly atMs: number; readonly note: string | null }
  | { readonly kind: 'stretch'; readonly fromMs: number; readonly toMs: number }

/** Where nothing is asked for: so many planned times until now. */
const recentTimes = 5
const dayMs = 86_400_000
const dayPattern = /^\d{4}-\d\d-\d\d$/
const dayWords: Readonly<Record<string, number>> = { yesterday: -1, today: 0, tomorrow: 1 }

/** Throws `invalid_request` for what cannot be read. `sinceMs`: when there was nothing before. */
export function stretchOf(
  ask: ExplainAsk,
  zone: ZoneRules,
  times: Pick<FireTimes, 'previous'> | null,
  { nowMs, sinceMs }: { readonly nowMs: number; readonly sinceMs: number },
): Stretch {
  if (ask.at !== undefined) return askedAt(ask.at.trim(), zone, nowMs)
  if (ask.fromMs === undefined && ask.toMs === undefined) return recent(times, nowMs, sinceMs)
  const toMs = ask.toMs ?? nowMs + 1
  const fromMs = ask.fromMs ?? toMs - dayMs
  if (fromMs < toMs) return { kind: 'stretch', fromMs, toMs }
  throw refused(
    ask.toMs === undefined ? '/query/from' : '/query/to',
    ask.toMs === undefined
      ? 'lies after now; give "to" as well to see what is to come'
      : 'is not after "from"; give a later one',
  )
}

function recent(times: Pick<FireTimes, 'previous'> | null, nowMs: number, sinceMs: number): Stretch {
  let fromMs = times?.previous(nowMs + 1) ?? null
  for (let i = 1; i < recentTimes && fromMs !== null && fromMs > sinceMs; i++) {
    fromMs = times?.previous(fromMs) ?? fromMs
  }
  const clippedMs = Math.min(Math.max(fromMs ?? nowMs - dayMs, sinceMs + 1), nowMs)
  return { kind: 'stretch', fromMs: clippedMs, toMs: nowMs + 1 }
}

function askedAt(text: string, zone: ZoneRules, nowMs: number): Stretch {
  const ahead = Object.hasOwn(dayWords, text.toLowerCase()) ? dayWords[text.toLowerCase()] : undefined
  if (ahead !== undefined) {
    const today = Math.floor((nowMs + zone.offsetAt(nowMs)) / dayMs)
    return dayOf(today + ahead, zone)
  }
  const parsed = parseAt(dayPattern.test(text) ? `${text}T00:00:00` : text, zone)
  if (!parsed.ok) {
    const days = '; or a day: 2026-12-01, today, yesterday, tomorrow'
    throw refused('/query/at', `${parsed.error.message}${days}`)
  }
  const { instantMs, note } = parsed.value
  if (!dayPattern.test(text)) return { kind: 'moment', atMs: instantMs, note }
  return dayOf(Math.floor(Date.parse(`${text}T00:00:00Z`) / dayMs), zone)
}

/** A day on the wall clock of the zone, however long it is. */
function dayOf(dayNumber: number, zone: ZoneRules): Stretch {
  const start = (day: number): number => zone.resolveLocal(day * dayMs).instantMs
  return {
    kind: 'stretch',
    fromMs: start(dayNumber),
    toMs: Math.max(start(dayNumber + 1), start(dayNumber) + 1),
  }
}

function refused(pointer: string, message: string): BelfryError {
  const words = `The request does not fit: ${pointer} ${message}.`
  return new BelfryError('invalid_request', words, { errors: [{ pointer, message }] })
}
