/**
 * The `Retry-After` header: seconds, or one of the three date forms of HTTP. A date is measured against the
 * response's own `Date`, so that a target whose clock is wrong still gets the pause it means. What does not
 * parse is ignored. How long a pause is granted is not decided here (domain/retry.ts).
 */

const fixdate = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/
const rfc850 = /^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/
const asctime = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/

function parseHttpDate(text: string): number | undefined {
  const known = fixdate.test(text) || rfc850.test(text)
  if (!known && !asctime.test(text)) return undefined
  const ms = Date.parse(known ? text : `${text} GMT`)
  return Number.isNaN(ms) ? undefined : ms
}

/** Milliseconds to wait, 0 or more; undefined if the header says nothing usable. */
export function parseRetryAfter(
  value: string | undefined,
  dateHeader: string | undefined,
  nowMs: number,
): number | undefined {
  const text = value?.trim() ?? ''
  if (/^\d{1,12}$/.test(text)) return Number(text) * 1000
  const atMs = parseHttpDate(text)
  if (atMs === undefined) return undefined
  const sentMs = parseHttpDate(dateHeader?.trim() ?? '') ?? nowMs
  return Math.max(atMs - sentMs, 0)
}
