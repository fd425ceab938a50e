/**
 * Streams of events (text/event-stream): how an event is written, and the one that follows the log of a run.
 *
 * A stream is made as it is read: what is new is asked for when the one before was taken by the connection,
 * so a slow reader holds no more than one page. Silence is broken by a comment, which keeps proxies from
 * closing the connection and shows the server when the reader has gone.
 */
import type { LogCursor } from '@belfry/contract'
import { logCursorText, maxLogBytes } from '@belfry/contract'
import type { RunWatcher } from '../engine/run-watcher.ts'
import type { RunNews } from '../ports/run-watch.ts'
import type { LogChunkRecord } from '../ports/worker-catalog.ts'
import type { OpenStream } from './open-streams.ts'

/**
 * Not to be changed, stored or held back on the way; the last is for nginx and those who took over its
 * header.
 */
export const streamHeaders = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store, no-transform',
  'x-accel-buffering': 'no',
} as const

/** How soon a reader is to ask again when the connection was lost. */
const reconnectMs = 1_000

/** JSON has no line break in it, so an event's data is one line. */
export function eventText(event: string, data: unknown, id?: string): string {
  const place = id === undefined ? '' : `id: ${id}\n`
  return `event: ${event}\n${place}data: ${JSON.stringify(data)}\n\n`
}

export async function* followLog(
  watcher: RunWatcher,
  stream: OpenStream,
  runId: string,
  from: LogCursor,
  heartbeatMs: number,
): AsyncGenerator<string, void> {
  let after = from
  yield `retry: ${reconnectMs}\n: the log of run ${runId}\n\n`
  for (;;) {
    const news = await watcher.next({ runId, after, waitMs: heartbeatMs, signal: stream.signal })
    const closed = stream.closedBy()
    if (closed !== undefined) {
      yield eventText('closed', { reason: closed })
      return
    }
    if (stream.signal.aborted) return
    if (news === undefined) {
      yield ': still there\n\n'
      continue
    }
    const { text, cursor } = pageText(news, after)
    after = cursor
    if (text !== '') yield text
    if (news.end === null || news.more) continue
    yield eventText('end', { runId, ...news.end }, logCursorText(after))
    return
  }
}

function pageText({ chunks }: RunNews, after: LogCursor): { text: string; cursor: LogCursor } {
  let cursor = after
  const parts: string[] = []
  for (const chunk of chunks) {
    parts.push(...lineEvents(chunk, cursor))
    cursor = { attempt: chunk.attempt, line: chunk.lastLine }
    if (!chunk.fullAfter) continue
    const full = { attempt: chunk.attempt, logCapBytes: maxLogBytes }
    parts.push(eventText('full', full, logCursorText(cursor)))
  }
  return { text: parts.join(''), cursor }
}

/** A place may lie inside a chunk. */
function lineEvents({ attempt, firstLine, lines }: LogChunkRecord, after: LogCursor): string[] {
  const from = attempt === after.attempt ? Math.max(0, after.line + 1 - firstLine) : 0
  return lines.slice(from).map((line, index) => {
    const number = firstLine + from + index
    return eventText('line', { attempt, number, ...line }, logCursorText({ attempt, line: number }))
  })
}
