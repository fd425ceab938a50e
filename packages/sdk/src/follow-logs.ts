/**
 * Follows the log of a run: by the server's stream of events, gone on with behind the last line wherever a
 * connection breaks; by asking page after page where the server is too old to have streams.
 */
import type { RunLog, RunReason, RunState, StreamedEnd, StreamedLine } from '@belfry/contract'
import { BelfryError, isTerminal } from '@belfry/contract'
import { AnswerError } from './answer-errors.ts'
import { optionsOf } from './check-input.ts'
import type { Requester } from './requester.ts'
import type { ServerEvent } from './server-events.ts'
import { pause } from './transport.ts'

export type FollowOptions = {
  /** `cursor` of an event that was seen: goes on behind it. */
  readonly after?: string | undefined
  readonly signal?: AbortSignal | undefined
}

export type LogEvent =
  | { readonly kind: 'line'; readonly cursor: string; readonly line: StreamedLine }
  /** Further lines of the attempt were dropped. */
  | { readonly kind: 'full'; readonly cursor: string; readonly attempt: number; readonly logCapBytes: number }
  /** The last one: the run has ended. */
  | { readonly kind: 'end'; readonly state: RunState; readonly reason: RunReason | null }

const firstPauseMs = 250
const longestPauseMs = 10_000
const pollMs = 1_000

/** Ends with the run. Throws the signal's reason, and what asking for the run throws. */
export async function* followLogs(
  requester: Requester,
  id: string,
  options?: FollowOptions,
): AsyncGenerator<LogEvent, void> {
  const { after, signal } = optionsOf(options)
  let cursor = after
  let pauseMs = firstPauseMs
  for (;;) {
    try {
      for await (const event of requester.events('runLogStream', { params: { id }, signal }, cursor)) {
        const known = logEventOf(event)
        cursor = event.id ?? cursor
        pauseMs = firstPauseMs
        if (known === undefined) continue
        yield known
        if (known.kind === 'end') return
      }
    } catch (error) {
      if (isGone(error)) return yield* pollLogs(requester, id, { after: cursor, signal })
      if (!isWorthARetry(error)) throw error
      if (error instanceof AnswerError) pauseMs = Math.max(pauseMs, error.retryAfterMs ?? 0)
    }
    await pause(pauseMs * (0.5 + Math.random() / 2), signal)
    pauseMs = Math.min(longestPauseMs, pauseMs * 2)
  }
}

/** The route, or the run: asking for the run tells which. */
const isGone = (error: unknown): boolean => error instanceof BelfryError && error.code === 'not_found'
const isWorthARetry = (error: unknown): boolean => error instanceof BelfryError && error.retryable

function logEventOf({ event, id = '', data }: ServerEvent): LogEvent | undefined {
  if (typeof data !== 'object' || data === null) return undefined
  if (event === 'line') return { kind: 'line', cursor: id, line: data as StreamedLine }
  if (event === 'full')
    return { kind: 'full', cursor: id, ...(data as { attempt: number; logCapBytes: number }) }
  if (event !== 'end') return undefined
  const { state, reason } = data as StreamedEnd
  return { kind: 'end', state, reason }
}

/** The lines of attempt after attempt, as they are when they are asked for. */
async function* pollLogs(
  requester: Requester,
  id: string,
  { after, signal }: FollowOptions,
): AsyncGenerator<LogEvent, void> {
  let [attempt = 1, last = -1] = (after ?? '1/-1').split('/').map(Number)
  for (;;) {
    // asked for before the lines, so that none of an ended run is missed
    const run = await requester.request('runGet', { params: { id }, signal })
    for (; attempt <= Math.max(1, run.attempts); attempt++) {
      let page: RunLog
      do {
        const query = { attempt, after: last }
        page = await requester.request('runLog', { params: { id }, query, signal })
        for (const line of page.lines) yield lineEvent(attempt, line)
        last = page.lastLine
      } while (page.more)
      if (page.full && page.lines.length > 0)
        yield { kind: 'full', cursor: `${attempt}/${last}`, attempt, logCapBytes: page.logCapBytes }
      if (attempt >= run.attempts) break
      last = -1
    }
    if (isTerminal(run.state)) {
      yield { kind: 'end', state: run.state, reason: run.reason }
      return
    }
    await pause(pollMs, signal)
  }
}

const lineEvent = (attempt: number, line: RunLog['lines'][number]): LogEvent => ({
  kind: 'line',
  cursor: `${attempt}/${line.number}`,
  line: { attempt, ...line },
})
