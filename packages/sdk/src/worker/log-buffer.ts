/**
 * Lines that functions log, gathered and sent in chunks. The chunks of an attempt follow each other, so that
 * one which is sent twice is kept once; before an end is reported, what was logged before it is sent.
 * Bounded: beyond a limit, and after the server said that the log is full, lines are dropped and counted.
 */
import type { LogChunk, LogLine } from '@belfry/contract'
import type { JobLog } from '../functions/define-job.ts'
import { tidy } from '../functions/run-function.ts'

const gatherMs = 250
const maxLinesAtOnce = 500
const maxBytesAtOnce = 256 * 1024
/** Bytes that wait in all. */
const maxWaitingBytes = 8 * 1024 * 1024
const maxFieldsBytes = 16_000

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

interface Open {
  readonly attempt: AttemptName
  readonly lines: { readonly line: LogLine; readonly bytes: number }[]
  nextLine: number
  full: boolean
  sending: Promise<void> | undefined
}

export function createLogBuffer(send: (chunk: LogChunk) => Promise<SentChunk | undefined>): LogBuffer {
  let waitingBytes = 0

  function add(open: Open, level: LogLine['level'], message: string, fields: unknown): void {
    if (open.full || waitingBytes >= maxWaitingBytes) return
    const kept = fieldsOf(fields)
    const line: LogLine = {
      at: new Date().toISOString(),
      level,
      message: tidy(message),
      ...(kept === undefined ? {} : { fields: kept }),
    }
    const bytes = JSON.stringify(line).length
    waitingBytes += bytes
    open.lines.push({ line, bytes })
    open.sending ??= new Promise<void>((resolve) => setTimeout(resolve, gatherMs)).then(() => sendAll(open))
  }

  async function sendAll(open: Open): Promise<void> {
    while (open.lines.length > 0) {
      const part = takePart(open.lines)
      waitingBytes -= part.reduce((sum, { bytes }) => sum + bytes, 0)
      const firstLine = open.nextLine
      open.nextLine += part.length
      if (open.full) continue
      const sent = await send({ ...open.attempt, firstLine, lines: part.map(({ line }) => line) })
      if (sent === undefined || sent.full || !sent.kept) open.full = true
    }
    open.sending = undefined
  }

  return {
    open(attempt) {
      const open: Open = { attempt, lines: [], nextLine: 0, full: false, sending: undefined }
      const at =
        (level: LogLine['level']): JobLog['info'] =>
        (message, fields) =>
          add(open, level, message, fields)
      return {
        log: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') },
        async flushed() {
          // what is being sent ends first, so that chunks keep their order
          if (open.sending === undefined) return
          await open.sending
        },
      }
    },
  }
}

function takePart(lines: Open['lines']): Open['lines'] {
  let bytes = 0
  const count = lines.findIndex((each, index) => {
    bytes += each.bytes
    return index > 0 && (index >= maxLinesAtOnce || bytes > maxBytesAtOnce)
  })
  return lines.splice(0, count < 0 ? lines.length : count)
}

/** As JSON, or as much of it as can be kept. */
function fieldsOf(fields: unknown): LogLine['fields'] | undefined {
  if (fields === undefined) return undefined
  try {
    const text = JSON.stringify(fields, (_, value: unknown) =>
      typeof value === 'bigint'
        ? String(value)
        : value instanceof Error
          ? `${value.name}: ${value.message}`
          : typeof value === 'string'
            ? tidy(value)
            : value,
    )
    if (text === undefined) return undefined
    if (text.length > maxFieldsBytes) return `${text.slice(0, 1_000)}… (${text.length} characters)`
    return JSON.parse(text) as LogLine['fields']
  } catch {
    return 'fields that are not JSON'
  }
}
