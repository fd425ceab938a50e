/**
 * A place in the list of dead letters, which is ordered by the instant of the failure and the id of the run;
 * as text in cursors.
 */

export interface LetterPosition {
  readonly failedAtMs: number
  readonly runId: string
}

const pattern = /^(\d{1,15})\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/
/** The years that Postgres and JavaScript both know. */
const latestMs = Date.UTC(9999, 11, 31)

export const writePosition = ({ failedAtMs, runId }: LetterPosition): string => `${failedAtMs}.${runId}`

/** Undefined where the text is none. */
export function readPosition(text: string): LetterPosition | undefined {
  const [, ms, runId] = pattern.exec(text) ?? []
  if (ms === undefined || runId === undefined || Number(ms) > latestMs) return undefined
  return { failedAtMs: Number(ms), runId }
}
