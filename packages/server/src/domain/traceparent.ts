/**
 * W3C trace context of an attempt: the trace is the run (its id is 16 bytes, as a trace id is), the span is
 * the attempt. So all attempts of a run, and what their targets record, are found under the run's id.
 */

/** `spanBytes` are 8 numbers in [0, 1), drawn anew for each attempt. */
export function attemptTraceparent(runId: string, spanBytes: readonly number[]): string {
  const span = spanBytes
    .map((each) =>
      Math.floor(each * 256)
        .toString(16)
        .padStart(2, '0'),
    )
    .join('')
  // all zeros would mean "no span"
  const spanId = /^0*$/.test(span) ? '0000000000000001' : span
  return `00-${runId.replaceAll('-', '')}-${spanId}-01`
}
