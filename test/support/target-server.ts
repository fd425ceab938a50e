/**
 * A real HTTP target on loopback, for every kind of test. Paths are programmed with behaviours; each call
 * takes the next one of its path, and the last stays. Every call is written into the ledger when it has been
 * read whole, which is what tests count against what Belfry says it did.
 */
import { once } from 'node:events'
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { type Behaviour, ok } from './target-behaviours.ts'

export interface TargetCall {
  readonly method: string
  /** With the query. */
  readonly url: string
  readonly path: string
  /** Lower-case names; the last value of a repeated one, as Node gives them. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** Wall clock of the target, epoch ms. */
  readonly atMs: number
}

export interface TargetServer {
  readonly port: number
  /** `http://127.0.0.1:<port>` and the path. */
  url(path?: string): string
  /** All calls, in the order in which they were read. */
  readonly ledger: readonly TargetCall[]
  callsTo(path: string): readonly TargetCall[]
  /**
   * What calls to a path get, one after the other; the last one stays. Paths without a program answer 200.
   */
  program(path: string, ...behaviours: readonly Behaviour[]): void
  /** Resolves once so many calls have come in all; rejects after `withinMs`. */
  called(count: number, withinMs?: number): Promise<void>
  readonly openSockets: number
  /** How many connections were ever taken. */
  readonly connections: number
  /** Resolves once no connection is open; rejects after `withinMs`. */
  drained(withinMs?: number): Promise<void>
  close(): Promise<void>
}

export interface TargetOptions {
  readonly tls?: {
    readonly key: string
    readonly cert: string
    /** Client certificates of this authority are asked for, and no call is taken without one. */
    readonly clientAuthority?: string
  }
  /** 0, the default, takes a free one. */
  readonly port?: number
}

async function readCall(request: IncomingMessage): Promise<TargetCall> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const headers = Object.entries(request.headers).map(([name, value]): [string, string] => [
    name,
    String(value),
  ])
  const url = request.url ?? ''
  return {
    method: request.method ?? '',
    url,
    path: url.split('?')[0] ?? '',
    headers: Object.fromEntries(headers),
    body: Buffer.concat(chunks).toString('utf8'),
    atMs: Date.now(),
  }
}

/**
 * Waiters for conditions that change with events: checked at once, at each change, and given up at a
 * deadline.
 */
function createWaiters() {
  const checks = new Set<() => void>()
  return {
    changed: () => {
      for (const check of checks) check()
    },
    /** `missing` says what the condition still lacks, or undefined once it holds. */
    until: (withinMs: number, missing: () => string | undefined) =>
      new Promise<void>((resolve, reject) => {
        const settle = (): void => {
          clearTimeout(timer)
          checks.delete(check)
        }
        const check = (): void => {
          if (missing() !== undefined) return
          settle()
          resolve()
        }
        const timer = setTimeout(() => {
          settle()
          reject(new Error(`${missing()} after ${withinMs} ms`))
        }, withinMs)
        checks.add(check)
        check()
      }),
  }
}

const tlsOptions = ({ key, cert, clientAuthority: ca }: NonNullable<TargetOptions['tls']>) =>
  ca === undefined ? { key, cert } : { key, cert, ca, requestCert: true, rejectUnauthorized: true }

export async function createTargetServer(options: TargetOptions = {}): Promise<TargetServer> {
  const ledger: TargetCall[] = []
  const programs = new Map<string, Behaviour[]>()
  const sockets = new Set<Socket>()
  const waiters = createWaiters()
  let connections = 0

  function nextBehaviour(path: string): Behaviour {
    const program = programs.get(path) ?? []
    return (program.length > 1 ? program.shift() : program[0]) ?? ok()
  }

  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    response.on('error', () => undefined)
    readCall(request).then(
      (call) => {
        ledger.push(call)
        waiters.changed()
        nextBehaviour(call.path)(response)
      },
      // The caller left before its request was complete: not a call.
      () => response.destroy(),
    )
  }
  const { tls } = options
  const server = tls === undefined ? createHttpServer(listener) : createHttpsServer(tlsOptions(tls), listener)
  server.on('connection', (socket: Socket) => {
    connections += 1
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.once('close', () => {
      sockets.delete(socket)
      waiters.changed()
    })
  })
  server.listen(options.port ?? 0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  return {
    port,
    ledger,
    url: (path = '/') => `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}${path}`,
    callsTo: (path) => ledger.filter((call) => call.path === path),
    program: (path, ...behaviours) => programs.set(path, [...behaviours]),
    called: (count, withinMs = 10_000) =>
      waiters.until(withinMs, () =>
        ledger.length >= count ? undefined : `${ledger.length} of ${count} calls`,
      ),
    get openSockets() {
      return sockets.size
    },
    get connections() {
      return connections
    },
    drained: (withinMs = 10_000) =>
      waiters.until(withinMs, () =>
        sockets.size === 0 ? undefined : `${sockets.size} connections still open`,
      ),
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}
