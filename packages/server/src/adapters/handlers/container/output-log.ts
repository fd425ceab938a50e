/**
 * From the bytes of two streams to the lines of a run's log, with a bound on everything: length of a line,
 * lines and bytes of the log, lines that wait to be written. Secrets are masked before anything is kept,
 * also where they stand across two pieces. What standard output says last is kept apart: it may be the
 * result.
 *
 * A container that says more than its log takes is not held up for it, and not read at full speed either.
 */
import type { LogLine } from '@belfry/contract'
import { maxLogBytes, maxResultBytes } from '@belfry/contract'
import { StringDecoder } from 'node:string_decoder'
import { createStreamMask, type StreamMask } from '@belfry/contract/stream-mask'
import type { Clock, Timer } from '../../../ports/clock.ts'
import type { ContainerSink, ContainerStream } from '../../../ports/container-backend.ts'

const longestLine = 8_000
const mostLinesOfChunk = 500
const writeMs = 300

/** Appends lines from the numbered one on; answers whether the log takes more. */
export type AppendLines = (firstLine: number, lines: readonly LogLine[]) => Promise<boolean>

export interface OutputLogOptions {
  readonly clock: Clock
  readonly secrets: Iterable<string>
  readonly append: AppendLines
  readonly denied: ContainerSink['denied']
}

export interface OutputLog {
  readonly sink: ContainerSink
  /** Writes what is left; afterwards nothing is taken. */
  end(): Promise<void>
  /** The last line of standard output that says something, unmasked. Undefined: none, or too long. */
  lastLine(): string | undefined
}

export function createOutputLog(options: OutputLogOptions): OutputLog {
  const secrets = [...options.secrets]
  const writer = createLineWriter(options)
  const lastLine = createLastLine()
  const streams = {
    stdout: createLines(secrets, (message) => writer.add('info', message)),
    stderr: createLines(secrets, (message) => writer.add('warn', message, { stream: 'stderr' })),
  } satisfies Record<ContainerStream, unknown>
  return {
    sink: {
      output(stream, bytes) {
        if (stream === 'stdout') lastLine.push(bytes)
        if (writer.isOpen()) streams[stream].push(bytes)
      },
      note: (message) => writer.add('warn', message, { stream: 'belfry' }),
      denied(place, why) {
        writer.add('warn', `The connection to ${place} was refused: it ${why}.`, { stream: 'belfry' })
        options.denied(place, why)
      },
    },
    async end() {
      streams.stdout.end()
      streams.stderr.end()
      await writer.end()
    },
    lastLine: () => lastLine.read(),
  }
}

/** Text of one stream, a line at a time; one that is too long comes in parts. */
function createLines(secrets: readonly string[], take: (line: string) => void) {
  const decoder = new StringDecoder('utf8')
  const mask: StreamMask = createStreamMask(secrets)
  let begun = ''
  const add = (text: string): void => {
    begun += text
    for (;;) {
      const newline = begun.indexOf('\n')
      if (newline < 0 && begun.length <= longestLine) return
      const isWhole = newline >= 0 && newline <= longestLine
      const end = isWhole ? newline : safeCut(begun)
      take(begun.slice(0, end).replace(/\r$/, ''))
      begun = begun.slice(isWhole ? end + 1 : end)
    }
  }
  return {
    push: (bytes: Uint8Array): void => add(mask.push(decoder.write(Buffer.from(bytes)))),
    end(): void {
      add(mask.push(decoder.end()) + mask.flush())
      if (begun !== '') take(begun)
      begun = ''
    },
  }
}

/** Not between the halves of a surrogate pair. */
const safeCut = (text: string): number =>
  /[\ud800-\udbff]/.test(text.charAt(longestLine - 1)) ? longestLine - 1 : longestLine

function createLastLine() {
  let line: Buffer[] = []
  let bytes = 0
  let last: Buffer | undefined
  const close = (): void => {
    const whole = bytes > maxResultBytes ? undefined : Buffer.concat(line)
    const isEmpty = whole !== undefined && whole.toString('utf8').trim() === ''
    if (!isEmpty) last = whole
    line = []
    bytes = 0
  }
  return {
    push(chunk: Uint8Array): void {
      let rest = Buffer.from(chunk)
      for (let newline = rest.indexOf(10); newline >= 0; newline = rest.indexOf(10)) {
        keep(rest.subarray(0, newline))
        close()
        rest = rest.subarray(newline + 1)
      }
      if (rest.length > 0) keep(rest)
    },
    read(): string | undefined {
      if (bytes > 0) close()
      return last?.toString('utf8').trim()
    },
  }
  function keep(part: Buffer): void {
    bytes += part.length
    if (bytes <= maxResultBytes) line.push(part)
  }
}

function createLineWriter({ clock, append }: OutputLogOptions) {
  let waiting: LogLine[] = []
  let firstLine = 0
  let bytes = 0
  let open = true
  let timer: Timer | undefined
  let writing: Promise<void> = Promise.resolve()

  async function write(): Promise<void> {
    const lines = waiting.splice(0, mostLinesOfChunk)
    if (lines.length === 0) return
    const first = firstLine
    firstLine += lines.length
    // a log that cannot be written must not end the run
    const takesMore = await append(first, lines).catch(() => true)
    if (!takesMore) close()
    if (waiting.length > 0) await write()
  }

  function close(): void {
    open = false
    waiting = []
  }

  function flush(): void {
    timer?.cancel()
    timer = undefined
    writing = writing.then(write)
  }

  return {
    isOpen: () => open,
    add(level: LogLine['level'], message: string, fields?: { readonly stream: string }): void {
      if (!open) return
      // Postgres text holds no NUL
      const clean = message.replaceAll('\u0000', '\uFFFD')
      bytes += clean.length + 64
      waiting.push({
        at: new Date(clock.nowMs()).toISOString(),
        level,
        message: clean,
        ...(fields && { fields }),
      })
      if (waiting.length >= mostLinesOfChunk) flush()
      else timer ??= clock.setTimer(writeMs, flush)
      // the store drops what is beyond the cap, and marks the log as full; more than that is for nobody
      if (bytes > 2 * maxLogBytes) open = false
    },
    async end(): Promise<void> {
      flush()
      await writing
      close()
    },
  }
}
