// An answer that comes before the request's body has ended reaches a client that writes all before it reads:
// the rest of the body is read and dropped before the connection closes, within bounds.
import { connect } from 'node:net'
import { maxBodyBytes } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestApi, type TestApi } from '../support/api.ts'

let t: TestApi
let url: URL
beforeAll(async () => {
  t = await startTestApi()
  url = new URL(await t.api.listen({ host: '127.0.0.1', port: 0 }))
})
afterAll(() => t.close())

type Raw = { readonly text: string; readonly error: string | undefined }

/** Writes head and body to the end, reads nothing before, and answers all that came until the close. */
function writeThenRead(head: readonly string[], body: readonly Buffer[]): Promise<Raw> {
  return new Promise((resolve) => {
    const socket = connect({ host: url.hostname, port: Number(url.port) })
    let text = ''
    let error: string | undefined
    socket.pause()
    socket.on('data', (chunk) => (text += chunk.toString('utf8')))
    socket.on('error', (fault) => (error = fault.message))
    socket.on('close', () => resolve({ text, error }))
    socket.write(`${head.join('\r\n')}\r\n\r\n`)
    const next = (index: number): void => {
      const chunk = body[index]
      if (chunk === undefined) return void socket.resume()
      socket.write(chunk, () => next(index + 1))
    }
    next(0)
  })
}

const head = (...more: string[]) => [
  'POST /v1/jobs HTTP/1.1',
  'Host: belfry',
  `Authorization: Bearer ${t.adminKey}`,
  'Content-Type: application/json',
  ...more,
]
const pieces = (bytes: number) => Array.from({ length: bytes / 65_536 }, () => Buffer.alloc(65_536, 'x'))
const sized = (bytes: number) => head(`Content-Length: ${bytes}`)

describe('a body that is too large', () => {
  const bytes = 2 * maxBodyBytes

  it('is refused with an answer that is read, each of 20 times', async () => {
    for (let n = 0; n < 20; n++) {
      const { text, error } = await writeThenRead(sized(bytes), pieces(bytes))
      expect([error, text.slice(0, 12)]).toEqual([undefined, 'HTTP/1.1 413'])
      expect(JSON.parse(text.slice(text.indexOf('\r\n\r\n')))).toMatchObject({
        code: 'body_too_large',
        errors: [{ pointer: '', message: expect.stringMatching(/1048576 bytes; send less/) as string }],
      })
    }
  })

  it('also where its length is not told', async () => {
    const chunks = pieces(bytes).map((piece) => Buffer.concat([Buffer.from('10000\r\n'), piece, crlf]))
    const whole = [...chunks, Buffer.from('0\r\n\r\n')]
    for (let n = 0; n < 5; n++) {
      const { text, error } = await writeThenRead(head('Transfer-Encoding: chunked'), whole)
      expect([error, text.slice(0, 12)]).toEqual([undefined, 'HTTP/1.1 413'])
    }
  })

  it.each([
    [415, 'Content-Type: application/json', 'Content-Type: text/csv'],
    [401, 'Authorization: Bearer', 'Authorization: Basic'],
  ])('is dropped before a %i too, where the client wants the connection closed', async (status, from, to) => {
    const lines = [...sized(bytes), 'Connection: close'].map((line) => line.replace(from, to))
    for (let n = 0; n < 5; n++) {
      const { text, error } = await writeThenRead(lines, pieces(bytes))
      expect([error, text.slice(0, 12)]).toEqual([undefined, `HTTP/1.1 ${status}`])
    }
  })

  it('is not read without end', async () => {
    const endless = 64 * maxBodyBytes
    const { text, error } = await writeThenRead(sized(endless), pieces(endless))
    expect(error !== undefined || text.startsWith('HTTP/1.1 413')).toBe(true)
  })

  it('is refused with an answer that fetch reads', async () => {
    for (let n = 0; n < 10; n++) {
      const answer = await fetch(new URL('/v1/jobs', url), {
        method: 'POST',
        headers: { authorization: `Bearer ${t.adminKey}`, 'content-type': 'application/json' },
        body: 'x'.repeat(bytes),
      })
      expect([answer.status, ((await answer.json()) as { code: string }).code]).toEqual([
        413,
        'body_too_large',
      ])
    }
  })
})

const crlf = Buffer.from('\r\n')
