/**
 * A run that still takes the inputs of further requests (debounce, collect), in sentences: what it has so
 * far, and what it waits for. Once it is due it is a run like any other.
 */
import { spanWords } from '../explanation/time-words.ts'

/** Instants are epoch ms. */
export interface Gathering {
  readonly kind: 'debounce' | 'collect'
  /** Requests that it took; null: it takes no more. */
  readonly items: number | null
  readonly openedAtMs: number | null
  readonly dueAtMs: number
  /** Of the job as it is defined now; null: no longer by that rule. */
  readonly maxItems: number | null
  readonly maxWaitMs: number | null
}

export function gatheringWords(gathering: Gathering, nowMs: number): string {
  const { kind, items, openedAtMs, dueAtMs, maxItems, maxWaitMs } = gathering
  const left = spanWords(Math.max(0, dueAtMs - nowMs))
  if (items === null) return `It has all the inputs that it takes, and starts in ${left}.`
  const so = `${items.toLocaleString('en')} ${items === 1 ? 'request' : 'requests'} so far`
  if (kind === 'collect') {
    const full = maxItems === null ? '' : `, or once it has ${maxItems.toLocaleString('en')}`
    return `It collects the inputs of requests, ${so}. It starts in ${left}${full}.`
  }
  const latest =
    maxWaitMs === null || openedAtMs === null
      ? ''
      : `, to at most ${spanWords(Math.max(0, openedAtMs + maxWaitMs - nowMs))} from now`
  return (
    `It waits until requests cease (debounce), ${so}, of which the newest counts. It starts in ${left}; ` +
    `another request puts that off${latest}.`
  )
}
