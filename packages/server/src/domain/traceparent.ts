/**
 * W3C trace context of an attempt: the trace is the run (its id is 16 bytes, as a trace id is), the span is
 * the attempt. So all attempts of a run, and what their targets record, are found under the run's id.
 */

/** `upper` and `lower` are numbers in [0, 1), drawn anew for each attempt: the halves of its span. */
export function attemptTraceparent(runId: string, upper: number, lower: number): string {
  const span = `${halfSpan(upper)}${halfSpan(lower)}`
  // all zeros would mean "no span"
  const spanId = span === '0000000000000000' ? '0000000000000001' : span
  return `00-${runId.replaceAll('-', '')}-${spanId}-01`
}

const hexOfByte = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/** Eight digits. Made for every attempt, so by looking up and not by writing a number. */
function halfSpan(random: number): string {
  const bits = Math.floor(random * 0x1_0000_0000)
  const digits = (shift: number): string => hexOfByte[(bits >>> shift) & 0xff] ?? ''
  return digits(24) + digits(16) + digits(8) + digits(0)
}
