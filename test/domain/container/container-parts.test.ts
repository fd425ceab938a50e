// The small parts of the container handler: tar, frames, the log of two streams, the judge of ends, the
// program that holds a network.
import { Readable } from 'node:stream'
import { containerHandlerSchema, type LogLine } from '@belfry/contract'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { holderProgram } from '../../../packages/server/src/adapters/handlers/container/holder-image.ts'
import { createOutputLog } from '../../../packages/server/src/adapters/handlers/container/output-log.ts'
import { createFrameReader } from '../../../packages/server/src/adapters/handlers/container/stream-frames.ts'
import { packTar, readFirstFile } from '../../../packages/server/src/adapters/handlers/container/tar.ts'
import { judgeExit } from '../../../packages/server/src/domain/container/exit-verdict.ts'
import { maskJson } from '@belfry/contract/stream-mask'
import { realClock } from '../../support/real-clock.ts'

/** A stream in pieces of this length. */
function* pieces(bytes: Uint8Array, length: number): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += length) yield Buffer.from(bytes.subarray(at, at + length))
}

describe('tar', () => {
  it('what is packed is read again, in any pieces', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ maxLength: 2_000 }),
        fc.integer({ min: 1, max: 700 }),
        async (content, length) => {
          const tar = packTar([{ name: 'x', content, mode: 0o600, uid: 65_534, gid: 2 ** 31 - 2 }])
          const read = await readFirstFile(Readable.from(pieces(tar, length)), 2_000)
          expect(read).toEqual({ kind: 'file', content: Buffer.from(content) })
        },
      ),
      { numRuns: 50 },
    )
  })

  it('a link, a folder, a file too large and what is no tar are no file', async () => {
    const tar = Buffer.from(
      packTar([{ name: 'x', content: new Uint8Array(100), mode: 0o600, uid: 1, gid: 1 }]),
    )
    expect(await readFirstFile(Readable.from([tar]), 99)).toEqual({ kind: 'too_large' })
    for (const type of ['1', '2', '5']) {
      tar.write(type, 156, 'latin1')
      expect(await readFirstFile(Readable.from([tar]), 1_000)).toEqual({ kind: 'no_file' })
    }
    expect(await readFirstFile(Readable.from([Buffer.alloc(1024, 0x41)]), 1_000)).toEqual({ kind: 'no_file' })
    expect(await readFirstFile(Readable.from([Buffer.from('short')]), 1_000)).toEqual({ kind: 'no_file' })
  })
})

describe('frames', () => {
  it('come out in order for each stream, however they are cut', () => {
    const frame = fc.record({ err: fc.boolean(), bytes: fc.uint8Array({ maxLength: 50 }) })
    fc.assert(
      fc.property(fc.array(frame, { maxLength: 20 }), fc.integer({ min: 1, max: 30 }), (frames, length) => {
        const whole = Buffer.concat(
          frames.map(({ err, bytes }) => {
            const head = Buffer.alloc(8)
            head[0] = err ? 2 : 1
            head.writeUInt32BE(bytes.length, 4)
            return Buffer.concat([head, bytes])
          }),
        )
        const got = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) }
        const reader = createFrameReader(
          (stream, bytes) => (got[stream] = Buffer.concat([got[stream], bytes])),
          () => expect.unreachable(),
        )
        for (const piece of pieces(whole, length)) reader.push(piece)
        const of = (err: boolean) =>
          Buffer.concat(frames.filter((each) => each.err === err).map(({ bytes }) => bytes))
        expect([got.stdout, got.stderr]).toEqual([of(false), of(true)])
      }),
    )
  })

  it('what are no frames are told once, and nothing more is taken', () => {
    const taken: string[] = []
    let faults = 0
    const reader = createFrameReader(
      (_stream, bytes) => taken.push(String(bytes)),
      () => (faults += 1),
    )
    reader.push(Buffer.from('Error: read unixpacket'))
    reader.push(Buffer.from('more of it, and more'))
    expect([taken, faults]).toEqual([[], 1])
  })
})

describe('the log', () => {
  async function logOf(secrets: string[], write: (out: (text: string | Buffer) => void) => void) {
    const lines: LogLine[] = []
    const log = createOutputLog({
      clock: realClock,
      secrets,
      denied: () => {},
      append: async (first, more) => {
        expect(first).toBe(lines.length)
        lines.push(...more)
        return true
      },
    })
    write((text) => log.sink.output('stdout', Buffer.from(text)))
    await log.end()
    return { messages: lines.map(({ message }) => message), last: log.lastLine() }
  }

  it('lines are whole, whatever the pieces, and the last that says something is kept apart', async () => {
    const { messages, last } = await logOf([], (out) => {
      for (const piece of pieces(Buffer.from('ä\r\n€uro\n\n{"a":1}\n\n'), 1)) out(piece)
    })
    expect(messages).toEqual(['ä', '€uro', '', '{"a":1}', ''])
    expect(last).toBe('{"a":1}')
  })

  it('a line that is too long comes in parts, none with half a character', async () => {
    const { messages } = await logOf([], (out) => out(`${'a'.repeat(7_999)}😀${'b'.repeat(9_000)}\nend`))
    expect(messages.join('')).toBe(`${'a'.repeat(7_999)}😀${'b'.repeat(9_000)}end`)
    expect(messages.every((message) => message.isWellFormed() && message.length <= 8_000)).toBe(true)
  })

  it('secrets are masked where they stand over two pieces', async () => {
    const { messages, last } = await logOf(['top-secret-1'], (out) => {
      out('x top-sec')
      out('ret-1 y\n')
    })
    expect(messages).toEqual(['x *** y'])
    expect(last).toBe('x top-secret-1 y')
  })

  it('a result that is too long is none', async () => {
    const { last } = await logOf([], (out) => out(`"${'x'.repeat(300_000)}"\n`))
    expect(last).toBeUndefined()
  })
})

describe('the end', () => {
  const rules = containerHandlerSchema.parse({ kind: 'container', image: 'localhost/a:1' })
  const exit = { exitCode: 0, outOfMemory: false, stopped: false }

  it.each([
    [{ text: '{"a":1}' }, 'last_line', { outcome: 'succeeded', result: { a: 1 } }],
    [{ text: 'done' }, 'last_line', { outcome: 'succeeded', result: undefined }],
    [{ text: 'done' }, 'none', { outcome: 'succeeded', result: undefined }],
    [{ text: 'done' }, 'file', { outcome: 'failed', retryable: false, error: { code: 'result_invalid' } }],
    [{ fault: 'none' }, 'file', { outcome: 'succeeded', result: undefined }],
    [{ fault: 'too_large' }, 'file', { outcome: 'failed', error: { code: 'result_invalid' } }],
    [
      { text: `${'['.repeat(100)}${']'.repeat(100)}` },
      'file',
      { outcome: 'failed', error: { code: 'result_invalid' } },
    ],
  ] as const)('with %j as %s', (answer, result, expected) => {
    expect(judgeExit(exit, answer, { ...rules, result })).toMatchObject(expected)
  })

  it('who was stopped by us has not run out of memory', () => {
    const none = { fault: 'none' } as const
    expect(judgeExit({ ...exit, exitCode: 137, stopped: true }, none, rules)).toMatchObject({
      error: { code: 'container_stopped' },
    })
    expect(judgeExit({ ...exit, exitCode: 1, outOfMemory: true }, none, rules)).toMatchObject({
      error: { code: 'container_out_of_memory', message: expect.stringContaining('256') as unknown },
    })
  })
})

describe('the rest', () => {
  it('secrets are masked in all of a result', () => {
    const value = { 'key-12345678': ['a 12345678 b', 12345678, 1, null, true, { x: '12345678' }] }
    expect(maskJson(value, ['12345678'])).toEqual({
      'key-***': ['a *** b', '***', 1, null, true, { x: '***' }],
    })
  })

  it.each(['x64', 'arm64'])('the holder is a whole ELF for %s', (architecture) => {
    const program = Buffer.from(holderProgram(architecture) ?? [])
    expect(program.subarray(0, 4).toString('latin1')).toBe('\u007fELF')
    expect(program.length).toBeLessThan(200)
    expect(Number(program.readBigUInt64LE(96))).toBe(program.length)
    expect(holderProgram('vax')).toBeUndefined()
  })
})
