/**
 * The HTTP proxy that is all the network a container has. It listens on the loopback of the container's own
 * network, so nobody else can reach it, and asks the rules of that run for each connection:
 *
 *   CONNECT host:port          bytes in both directions (TLS, or whatever else)
 *   GET http://host/… and so on   one request, forwarded
 *
 * What is denied gets 403 with the reason, and a line in the log of the run. Connections and the time that
 * they say nothing are bounded. Nothing is read of what goes through, and no header of a request is kept.
 */
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream'
import type { TunnelRules } from '../../../domain/container/egress-class.ts'
import type { TunnelOutcome, Tunnels } from '../../../ports/tunnels.ts'

export interface EgressProxy {
  /** A connection out of the container. */
  accept(socket: Socket): void
  close(): void
}

const mostConnections = 128
const silentMs = 300_000
const maxHeaderBytes = 32 * 1024

/** Of this hop alone, so not handed on. */
const hopHeaders = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

export function createEgressProxy(
  tunnels: Tunnels,
  rules: TunnelRules,
  onDenied: (place: string, why: string) => void,
): EgressProxy {
  const over = new AbortController()
  const sockets = new Set<Duplex>()
  const server = createServer({ maxHeaderSize: maxHeaderBytes, requestTimeout: 0, headersTimeout: 30_000 })

  const hold = <T extends Duplex & { setTimeout?: (ms: number, then: () => void) => unknown }>(
    socket: T,
  ): T => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => socket.destroy())
    socket.setTimeout?.(silentMs, () => socket.destroy())
    return socket
  }

  async function open(host: string, port: number): Promise<TunnelOutcome> {
    const outcome = await tunnels.open(host, port, rules, over.signal)
    if (!outcome.ok && outcome.code === 'denied') onDenied(`${host}:${port}`, outcome.message)
    if (outcome.ok) hold(outcome.socket)
    return outcome
  }

  server.on('connect', (asked: IncomingMessage, client: Duplex, head: Buffer) => {
    void tunnel(asked, hold(client), head, open)
  })
  server.on('request', (asked: IncomingMessage, answer: ServerResponse) => {
    void forward(asked, answer, open)
  })
  server.on('clientError', (_error, socket: Duplex) => socket.destroy())

  return {
    accept(socket) {
      if (over.signal.aborted || sockets.size >= 2 * mostConnections) return void socket.destroy()
      server.emit('connection', hold(socket))
    },
    close() {
      over.abort()
      for (const socket of sockets) socket.destroy()
      server.closeAllConnections()
    },
  }
}

type Open = (host: string, port: number) => Promise<TunnelOutcome>

const refusal = (outcome: Extract<TunnelOutcome, { ok: false }>, place: string) => ({
  status: outcome.code === 'denied' ? 403 : 502,
  text: outcome.code === 'denied' ? `belfry: ${place} ${outcome.message}\n` : `belfry: ${outcome.message}\n`,
})

async function tunnel(asked: IncomingMessage, client: Duplex, early: Buffer, open: Open): Promise<void> {
  const place = placeOf(asked.url ?? '')
  const outcome: TunnelOutcome =
    place === undefined
      ? { ok: false, code: 'failed', message: 'CONNECT needs a host and a port' }
      : await open(place.host, place.port)
  if (client.destroyed) return void (outcome.ok && outcome.socket.destroy())
  if (!outcome.ok) {
    const { status, text } = refusal(outcome, asked.url ?? '')
    const head = [
      `HTTP/1.1 ${status} ${status === 403 ? 'Forbidden' : 'Bad Gateway'}`,
      'content-type: text/plain',
      `content-length: ${Buffer.byteLength(text)}`,
      'connection: close',
    ]
    client.end(`${head.join('\r\n')}\r\n\r\n${text}`)
    return
  }
  client.write('HTTP/1.1 200 Connection Established\r\n\r\n')
  if (early.length > 0) outcome.socket.write(early)
  join(client, outcome.socket)
}

/** Either side may say its last and still listen. */
function join(client: Duplex, target: Duplex): void {
  client.pipe(target)
  target.pipe(client)
  client.on('close', () => target.destroy())
  target.on('close', () => client.end())
}

/** `host:port`, the host of IPv6 in brackets. */
function placeOf(text: string): { readonly host: string; readonly port: number } | undefined {
  const [, bracketed, name, port] =
    /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:/@[\]]{1,253})):(\d{1,5})$/.exec(text) ?? []
  const host = bracketed ?? name
  const number = Number(port)
  return host === undefined || number < 1 || number > 65_535 ? undefined : { host, port: number }
}

async function forward(asked: IncomingMessage, answer: ServerResponse, open: Open): Promise<void> {
  const url = asked.url !== undefined && URL.canParse(asked.url) ? new URL(asked.url) : undefined
  if (url?.protocol !== 'http:')
    return refuse(answer, 400, 'belfry: this is a proxy; ask it for http:// URLs\n')
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const port = url.port === '' ? 80 : Number(url.port)
  const outcome = await open(host, port)
  if (answer.destroyed) return void (outcome.ok && outcome.socket.destroy())
  if (!outcome.ok) {
    const { status, text } = refusal(outcome, `${url.hostname}:${port}`)
    return refuse(answer, status, text)
  }
  const sent = request({
    createConnection: () => outcome.socket,
    method: asked.method ?? 'GET',
    path: `${url.pathname}${url.search}`,
    headers: { ...ownHeaders(asked), host: url.host, connection: 'close' },
    setHost: false,
    maxHeaderSize: maxHeaderBytes,
  })
  sent.on('response', (got) => {
    const headers = Object.entries(got.headersDistinct).filter(([name]) => !hopHeaders.has(name))
    answer.writeHead(got.statusCode ?? 502, Object.fromEntries(headers) as Record<string, string[]>)
    pipeline(got, answer, () => undefined)
  })
  sent.on('error', () => {
    if (answer.headersSent) answer.destroy()
    else refuse(answer, 502, `belfry: ${url.hostname}:${port} did not answer with HTTP\n`)
  })
  answer.on('close', () => sent.destroy())
  pipeline(asked, sent, () => undefined)
}

const ownHeaders = (asked: IncomingMessage): Record<string, string[]> =>
  Object.fromEntries(
    Object.entries(asked.headersDistinct).flatMap(([name, values]) =>
      hopHeaders.has(name) || values === undefined ? [] : [[name, values]],
    ),
  )

function refuse(answer: ServerResponse, status: number, text: string): void {
  answer.writeHead(status, { 'content-type': 'text/plain', 'content-length': Buffer.byteLength(text) })
  answer.end(text)
}
