/**
 * What happened to a run, step by step, for people: when, how long after it was made, and what. The sentences
 * are the server's.
 */
import type { Run, TimelineEntry } from '@belfry/contract'
import type { Paint, Tone } from './paint.ts'
import { toneOf } from './paint.ts'
import { plain } from './text.ts'
import type { Clock } from './times.ts'
import { durationWords, timeWords } from './times.ts'

/** None for a run of a server that tells no timeline. */
export function timelineLines(run: Run, { clock, paint }: { clock: Clock; paint: Paint }): string[] {
  const steps = timelineOf(run)
  const [first] = steps
  if (first === undefined) return []
  const beginMs = Date.parse(run.createdAt)
  const rows = steps.map((step) => ({
    step,
    when: timeWords(step.at, clock),
    after: afterWords(step, beginMs),
  }))
  const width = Math.max(...rows.map(({ after }) => after.length))
  return [
    '',
    paint('Timeline', 'strong'),
    ...rows.map(({ step, when, after }) => {
      const tone = toneOfStep(step, run)
      const words = plain(step.words)
      return `  ${when}  ${after.padStart(width)}  ${tone === undefined ? words : paint(words, tone)}`
    }),
  ]
}

/** A server of an older version sends none. */
export const timelineOf = (run: Run): readonly TimelineEntry[] =>
  (run as { readonly timeline?: readonly TimelineEntry[] }).timeline ?? []

function afterWords({ at }: TimelineEntry, beginMs: number): string {
  const afterMs = Date.parse(at) - beginMs
  return afterMs === 0 ? '' : `${afterMs > 0 ? '+' : ''}${durationWords(afterMs)}`
}

function toneOfStep({ kind, attempt, over }: TimelineEntry, run: Run): Tone | undefined {
  if (kind === 'delay') return over ? 'faint' : 'busy'
  if (kind === 'ended') return toneOf(run.state)
  if (kind !== 'attempt') return undefined
  return toneOf(run.attemptList.find((each) => each.number === attempt)?.outcome ?? 'running')
}
