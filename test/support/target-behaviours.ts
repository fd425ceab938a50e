/**
 * What a test target can do with a call: answer well, answer badly, or misbehave as a hostile server would.
 * Each is a function of the raw response, so that nothing in between makes it behave.
 */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { gzipSync } from 'node:zlib'

export type Behaviour = (response: ServerResponse) => void

export type AnswerHeaders = Readonly<Record<string, string>>

export function answer(
  status: number,
  body: string | Uint8Array = '',
  headers: AnswerHeaders = {},
): Behaviour {
  return (response) => {
    response.writeHead(status, headers)
    response.end(body)
  }
}

export const ok = (body: string | Uint8Array = 'ok', headers: AnswerHeaders = {}): Behaviour =>
  answer(200, body, headers)

/** Fails so many times with a status, then answers 200. */
export const failThenOk = (times: number, status = 503, headers: AnswerHeaders = {}): Behaviour[] => [
  ...Array.from({ length: times }, () => answer(status, 'not yet', headers)),
  ok(),
]

export const retryAfter = (status: number, value: string, headers: AnswerHeaders = {}): Behaviour =>
  answer(status, 'later', { ...headers, 'retry-after': value })

export const redirect = (status: number, location: string): Behaviour => answer(status, '', { location })

/** Takes the call and never says anything. */
export const hang: Behaviour = () => undefined

/** Cuts the connection without an answer, by a TCP reset. */
export const reset: Behaviour = (response) => {
  response.socket?.resetAndDestroy()
}

/** One byte of body every so often, for ever. */
export function slowDrip(everyMs: number): Behaviour {
  return (response) => {
    response.writeHead(200, { 'content-type': 'text/plain' })
    response.flushHeaders()
    const timer = setInterval(() => response.write('.'), everyMs)
    response.once('close', () => clearInterval(timer))
  }
}

/** Writes the same piece for as long as the other side reads. */
function pour(socket: Socket, piece: string | Uint8Array): void {
  const more = (): void => {
    while (!socket.destroyed && socket.write(piece)) continue
  }
  socket.on('drain', more)
  more()
}

/** Sends bytes as they are in place of an HTTP response, then, if `end`, closes. */
export function raw(text: string, end = true): Behaviour {
  return (response) => {
    if (end) response.socket?.end(text)
    else response.socket?.write(text)
  }
}

/** Response headers without end. */
export const endlessHeaders: Behaviour = (response) => {
  const { socket } = response
  if (socket === null) return
  socket.write('HTTP/1.1 200 OK\r\n')
  pour(socket, `x-more: ${'a'.repeat(1000)}\r\n`)
}

/** A body without end, as fast as it is read. */
export const endlessBody: Behaviour = (response) => {
  const { socket } = response
  if (socket === null) return
  socket.write('HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n')
  pour(socket, Buffer.alloc(64 * 1024, 'b'))
}

/** A beginning, and then the same piece for as long as the other side reads. */
export function pouring(begin: string, piece: string): Behaviour {
  return (response) => {
    const { socket } = response
    if (socket === null) return
    socket.write(begin)
    pour(socket, piece)
  }
}

/** Interim responses without end. */
export const interimStorm = pouring('', 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n')

const chunked = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'

/** A chunk whose extension never ends: not one byte of it is body. */
export const endlessExtension = pouring(`${chunked}1;`, 'a'.repeat(64 * 1024))

/** Trailers without end. */
export const endlessTrailers = pouring(`${chunked}1\r\na\r\n0\r\n`, `x-more: ${'a'.repeat(1000)}\r\n`)

/** A body in chunks of one byte each, without end. */
export const endlessCrumbs = pouring(chunked, '1\r\na\r\n'.repeat(10_000))

/** Promises more body than it sends. */
export const cutBody: Behaviour = raw('HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nonly this')

/** Fifty million zeros in less than fifty thousand bytes; made before any call waits for it. */
export const gzipBomb = (): Behaviour =>
  ok(gzipSync(Buffer.alloc(50_000_000)), { 'content-encoding': 'gzip', 'content-type': 'text/plain' })
