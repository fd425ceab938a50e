/**
 * Times and durations for people: local time (or UTC) with what it means from now; "5m", "1h 30m", "120 ms".
 * The API's own RFC 3339 text is what programs get.
 */

export type Clock = {
  readonly now: () => number
  /** IANA zone, or undefined for the machine's. */
  readonly zone: string | undefined
  readonly utc: boolean
}

const units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const

/** "120 ms", "4.2 s", "5m", "1h 30m", "3d 4h": at most two units. */
export function durationWords(ms: number): string {
  const size = Math.abs(ms)
  const sign = ms < 0 ? '-' : ''
  if (size < 1_000) return `${sign}${Math.round(size)} ms`
  if (size < 10_000 && size % 1_000 !== 0) return `${sign}${(size / 1_000).toFixed(1)} s`
  let rest = Math.round(size / 1_000) * 1_000
  const parts: string[] = []
  for (const [name, unit] of units) {
    const count = Math.floor(rest / unit)
    if (count > 0) parts.push(`${count}${name}`)
    rest -= count * unit
    if (parts.length === 2 || (parts.length === 1 && count === 0)) break
  }
  return sign + parts.join(' ')
}

/** "in 5m", "2h ago", "now". */
export function relativeWords(ms: number): string {
  if (Math.abs(ms) < 1_000) return 'now'
  const whole = Math.abs(ms) < 10_000 ? Math.round(Math.abs(ms) / 1_000) * 1_000 : Math.abs(ms)
  const words = durationWords(whole)
  return ms > 0 ? `in ${words}` : `${words} ago`
}

/**
 * "2026-11-29 23:10:05" in the clock's zone, or "2026-11-29T22:10:05Z". Text that is no instant comes back
 * as it is.
 */
export function timeWords(instant: string, clock: Clock): string {
  const ms = Date.parse(instant)
  if (Number.isNaN(ms)) return instant
  if (clock.utc) return `${new Date(ms).toISOString().slice(0, 19)}Z`
  return formatterOf(clock.zone).format(ms).replace(',', '')
}

/** "2026-11-29 23:10:05 (in 4m)". */
export function timeWithDistance(instant: string, clock: Clock): string {
  const ms = Date.parse(instant)
  if (Number.isNaN(ms)) return instant
  return `${timeWords(instant, clock)} (${relativeWords(ms - clock.now())})`
}

const formatters = new Map<string | undefined, Intl.DateTimeFormat>()

// Swedish writes dates the ISO way. A zone that this machine does not know falls back to UTC rather than
// failing.
function formatterOf(zone: string | undefined): Intl.DateTimeFormat {
  const known = formatters.get(zone)
  if (known !== undefined) return known
  const options = { dateStyle: 'short', timeStyle: 'medium', hourCycle: 'h23' } as const
  let formatter: Intl.DateTimeFormat
  try {
    formatter = new Intl.DateTimeFormat(
      'sv-SE',
      zone === undefined ? options : { ...options, timeZone: zone },
    )
  } catch {
    formatter = new Intl.DateTimeFormat('sv-SE', { ...options, timeZone: 'UTC' })
  }
  formatters.set(zone, formatter)
  return formatter
}
