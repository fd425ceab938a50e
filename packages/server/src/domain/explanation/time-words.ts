/**
 * Instants and stretches of time as sentences tell them: "Sun 2026-03-29 03:00:00 +02:00", "1 hour and 5
 * minutes".
 */
import type { ZoneRules } from '../zone/zone-rules.ts'

const weekdays = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat']
const units = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
] as const

/** The wall clock of a zone, with its distance from UTC. */
export function instantWords(instantMs: number, zone: ZoneRules): string {
  const { date, clock, offset } = wallParts(instantMs, zone)
  const weekday = weekdays[new Date(instantMs + zone.offsetAt(instantMs)).getUTCDay()] ?? ''
  return `${weekday} ${date} ${clock} ${offset}`
}

/** The same as RFC 3339, to the second. */
export function localText(instantMs: number, zone: ZoneRules): string {
  const { date, clock, offset } = wallParts(instantMs, zone)
  return `${date}T${clock}${offset}`
}

function wallParts(instantMs: number, zone: ZoneRules) {
  const offsetMs = zone.offsetAt(instantMs)
  const [date = '', rest = ''] = new Date(instantMs + offsetMs).toISOString().split('T')
  const minutes = Math.round(Math.abs(offsetMs) / 60_000)
  const two = (value: number): string => String(value).padStart(2, '0')
  const offset = `${offsetMs < 0 ? '-' : '+'}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`
  return { date, clock: rest.slice(0, 8), offset }
}

/** At most two units, to the nearest second; less than a second in milliseconds. */
export function spanWords(spanMs: number): string {
  if (Math.round(spanMs) < 1_000) return `${Math.max(0, Math.round(spanMs))} ms`
  let restMs = Math.round(spanMs / 1_000) * 1_000
  const parts: string[] = []
  for (const [name, unitMs] of units) {
    const amount = Math.floor(restMs / unitMs)
    restMs -= amount * unitMs
    if (amount > 0) parts.push(`${amount.toLocaleString('en')} ${name}${amount === 1 ? '' : 's'}`)
    else if (parts.length > 0) break
    if (parts.length === 2) break
  }
  return parts.join(' and ')
}
