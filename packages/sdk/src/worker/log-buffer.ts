/**
 * Lines that functions log, gathered and sent in chunks. The chunks of an attempt follow each other, so that
 * one which is sent twice is kept once; before an end is reported, what was logged before it is sent
 * (log-sender.ts). Bounded: beyond a limit lines are dropped and counted, and a line in their place says how
 * many.
 */
import type { LogLine } from '@belfry/contract'
import type { JobLog } from '../functions/define-job.ts'
import { lineOf } from './log-line.ts'
import { createLogSender, type LogSenderOptions, type SentLog } from './log-sender.ts'

const gatherMs = 250
const maxLinesAtOnce = 500
const maxBytesAtOnce = 256 * 1024
/** Bytes that wait in all. */
const maxWaitingBytes = 8 * 1024 * 1024
/** How long an end waits for its log, where that alone is not taken. */
const longestFlushMs = 60_000

export interface AttemptName {
  readonly runId: string
  readonly leaseEpoch: number
}

export interface SentChunk extends AttemptName {
  readonly kept: boolean
  readonly full: boolean
}

export interface AttemptLog {
  readonly log: JobLog
  /** Resolves when everything so far was sent or given up. */
  readonly flushed: () => Promise<void>
}

export interface LogBuffer {
  readonly open: (attempt: AttemptName) => AttemptLog
}

export interface LogBufferOptions extends LogSenderOptions {
  /** Bytes that wait, of all that share it. */
  readonly waiting?: { bytes: number }
  /** Takes out what must not be sent. */
  readonly mask?: (line: LogLine) => LogLine
  /** Lines that were dropped because they could not be sent. */
  readonly onDropped?: (lines: number) => void
}

interface Open extends SentLog {
  readonly lines: { readonly line: LogLine; readonly bytes: number }[]
  nextLine: number
  sending: Promise<void> | undefined
  /** Since the last line that was taken. */
  dropped: number
}

export function createLogBuffer(options: LogBufferOptions): LogBuffer {
  const { waiting = { bytes: 0 }, mask = (line: LogLine) => line, onDropped } = options
  const deliver = createLogSender(options)

  function add(open: Open, level: LogLine['level'], message: unknown, fields: unknown): void {
    if (open.full) return
    if (waiting.bytes >= maxWaitingBytes) {
      open.dropped += 1
      return
    }
    noteGap(open)
    push(open, mask(lineOf(level, message, fields)))
    open.sending ??= new Promise<void>((resolve) => setTimeout(resolve, gatherMs)).then(() => sendAll(open))
  }

  function push(open: Open, line: LogLine): void {
    const bytes = JSON.stringify(line).length
    waiting.bytes += bytes
    open.lines.push({ line, bytes })
  }

  function noteGap(open: Open): void {
    if (open.dropped === 0) return
    const words = `${open.dropped} lines are missing here: too much of the log was waiting to be sent`
    onDropped?.(open.dropped)
    open.dropped = 0
    push(open, lineOf('warn', words, undefined))
  }

  async function sendAll(open: Open): Promise<void> {
    while (open.lines.length > 0) {
      const part = takePart(open.lines)
      const lines = part.map(({ line }) => line)
      const firstLine = open.nextLine
      open.nextLine += part.length
      const unsent = open.full ? 0 : await deliver(open, firstLine, lines)
      if (unsent > 0) {
        open.full = true
        onDropped?.(unsent + open.lines.length + open.dropped)
      }
      waiting.bytes -= part.reduce((sum, { bytes }) => sum + bytes, 0)
      if (open.lines.length === 0 && !open.full) noteGap(open)
    }
    open.sending = undefined
  }

  return {
    open(attempt) {
      const open = newOpen(attempt)
      const at =
        (level: LogLine['level']): JobLog['info'] =>
        (message, fields) =>
          add(open, level, message, fields)
      return {
        log: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') },
        async flushed() {
          open.flushBeforeMs = performance.now() + longestFlushMs
          if (open.sending === undefined && !open.full) {
            noteGap(open)
            if (open.lines.length > 0) open.sending = sendAll(open)
          }
          // what is being sent ends first, so that chunks keep their order
          await open.sending
        },
      }
    },
  }
}

const newOpen = (attempt: AttemptName): Open => ({
  attempt,
  lines: [],
  nextLine: 0,
  full: false,
  sending: undefined,
  dropped: 0,
  flushBeforeMs: Infinity,
})

function takePart(lines: Open['lines']): Open['lines'] {
  let bytes = 0
  const count = lines.findIndex((each, index) => {
    bytes += each.bytes
    return index > 0 && (index >= maxLinesAtOnce || bytes > maxBytesAtOnce)
  })
  return lines.splice(0, count < 0 ? lines.length : count)
}
