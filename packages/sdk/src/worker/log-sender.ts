/**
 * Sends the chunks of a log until each was answered.
 *
 *   kept      ──► the next
 *   full, or the run is not held ─► the rest is not sent; the log itself says so
 *   no answer ──► the same chunk again, with backoff, as long as `alive` says that it can help
 *   refused   ──► split in halves, down to the line, whose place is taken by one that says so
 */
import type { LogChunk, LogLine } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import { AnswerError } from '../answer-errors.ts'
import type { AttemptName, SentChunk } from './log-buffer.ts'
import { lineOf } from './log-line.ts'

const longestBackoffMs = 5_000

export interface LogSenderOptions {
  readonly send: (chunk: LogChunk) => Promise<SentChunk | undefined>
  /** Whether another try can help. Default: always. */
  readonly alive?: () => boolean
  readonly onTrouble?: (error: unknown, retryInMs: number) => void
}

/** The log of an attempt, as far as sending is concerned. */
export interface SentLog {
  readonly attempt: AttemptName
  /** Nothing more is taken. */
  full: boolean
  /** No try after it. */
  flushBeforeMs: number
}

/** Answers how many lines were given up; 0: all were sent, or are not wanted. Never rejects. */
export type LogSender = (log: SentLog, firstLine: number, lines: readonly LogLine[]) => Promise<number>

type Answer = { readonly kind: 'taken' | 'lost' } | { readonly kind: 'refused'; readonly words: string }

export function createLogSender({ send, alive = () => true, onTrouble }: LogSenderOptions): LogSender {
  async function untilAnswered(log: SentLog, firstLine: number, lines: readonly LogLine[]): Promise<Answer> {
    for (let failures = 0; ; failures++) {
      try {
        const sent = await send({ ...log.attempt, firstLine, lines: [...lines] })
        if (sent === undefined || sent.full || !sent.kept) log.full = true
        return { kind: 'taken' }
      } catch (error) {
        if (isRefusal(error)) return { kind: 'refused', words: wordsOf(error) }
        const canHelp = error instanceof BelfryError && error.retryable
        if (!canHelp || !alive() || performance.now() > log.flushBeforeMs) return { kind: 'lost' }
        const ceilingMs = Math.min(longestBackoffMs, 200 * 2 ** Math.min(failures, 6))
        const retryInMs = Math.round(ceilingMs * (0.5 + Math.random() / 2))
        onTrouble?.(error, retryInMs)
        await new Promise((resolve) => setTimeout(resolve, retryInMs))
      }
    }
  }

  return async function deliver(log, firstLine, lines): Promise<number> {
    const answer = await untilAnswered(log, firstLine, lines)
    if (answer.kind !== 'refused') return answer.kind === 'taken' ? 0 : lines.length
    const [line] = lines
    if (line === undefined) return 0
    if (lines.length === 1) {
      const instead = { ...lineOf('warn', `A line was refused: ${answer.words}`, undefined), at: line.at }
      return (await untilAnswered(log, firstLine, [instead])).kind === 'taken' ? 0 : 1
    }
    const half = Math.ceil(lines.length / 2)
    const rest = lines.slice(half)
    const unsent = await deliver(log, firstLine, lines.slice(0, half))
    if (unsent > 0) return unsent + rest.length
    return log.full ? 0 : deliver(log, firstLine + half, rest)
  }
}

/** The chunk as such is at fault, not the way to where it is kept; a database has errors of its own. */
function isRefusal(error: unknown): boolean {
  if (error instanceof AnswerError) return [400, 413].includes(error.problem.status)
  return !(error instanceof BelfryError) || error.code === 'invalid_request'
}

function wordsOf(error: unknown): string {
  if (!(error instanceof BelfryError)) return 'it could not be stored'
  const [first] = error.errors
  return first === undefined ? error.message : `${first.pointer} ${first.message}`.trim()
}
