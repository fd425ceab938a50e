/**
 * The ops port: `/livez` (this process and its event loop, never the database), `/readyz` (every check
 * passes; not while draining) and `/metrics`. Plain and small, so that it answers when nothing else does;
 * never on the API's port.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { BelfryError } from '@belfry/contract'
import type { Metrics } from './metrics.ts'

export interface ReadinessCheck {
  /** Shown with `?verbose`. */
  readonly name: string
  /** Rejects when it is not ready; the message is shown. */
  readonly check: () => Promise<void>
}

export interface OpsOptions {
  readonly metrics: Metrics
  readonly checks: readonly ReadinessCheck[]
  /** Limit for all checks together. Default 2,000. */
  readonly checkTimeoutMs?: number | undefined
}

export interface Ops {
  /** Answers the address, for example `http://127.0.0.1:9090`. Throws `in_use` or `invalid_config`. */
  listen(address: { host: string; port: number }): Promise<string>
  /** From now on not ready; still alive. */
  drain(): void
  close(): Promise<void>
}

type Reply = { readonly status: number; readonly type: string; readonly text: string }
type Verdict = { readonly name: string; readonly fault: string | undefined }

const plain = 'text/plain; charset=utf-8'

export function createOps(options: OpsOptions): Ops {
  let draining = false
  const timeoutMs = options.checkTimeoutMs ?? 2_000

  async function verdicts(): Promise<readonly Verdict[]> {
    const drainingCheck = {
      name: 'not_draining',
      fault: draining ? 'the server is shutting down' : undefined,
    }
    const others = options.checks.map(async ({ name, check }) => ({
      name,
      fault: await faultOf(check, timeoutMs),
    }))
    return [drainingCheck, ...(await Promise.all(others))]
  }

  async function answer(path: string, verbose: boolean): Promise<Reply> {
    if (path === '/livez') return { status: 200, type: plain, text: 'ok\n' }
    if (path === '/metrics') {
      return { status: 200, type: options.metrics.contentType, text: await options.metrics.render() }
    }
    if (path !== '/readyz') {
      return { status: 404, type: plain, text: 'There are /livez, /readyz (add ?verbose) and /metrics.\n' }
    }
    const all = await verdicts()
    const ready = all.every(({ fault }) => fault === undefined)
    const lines = all.map(({ name, fault }) =>
      fault === undefined ? `[+] ${name} ok` : `[-] ${name}: ${fault}`,
    )
    const shown = verbose || !ready ? [...lines, ready ? 'ready' : 'not ready'] : ['ok']
    return { status: ready ? 200 : 503, type: plain, text: `${shown.join('\n')}\n` }
  }

  const server = createServer((request, response) => {
    void respond(request, response, answer)
  })
  server.requestTimeout = 10_000
  return {
    drain() {
      draining = true
    },
    listen({ host, port }) {
      return new Promise((resolve, reject) => {
        server.once('error', (error: NodeJS.ErrnoException) => reject(listenFault(error, host, port)))
        server.listen({ host, port }, () => {
          const address = server.address()
          const bound = typeof address === 'object' && address !== null ? address.port : port
          resolve(`http://${host.includes(':') ? `[${host}]` : host}:${bound}`)
        })
      })
    },
    close() {
      draining = true
      server.closeIdleConnections()
      return new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      })
    },
  }
}

async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  answer: (path: string, verbose: boolean) => Promise<Reply>,
): Promise<void> {
  const [path = '/', query = ''] = (request.url ?? '/').split('?')
  const readable = request.method === 'GET' || request.method === 'HEAD'
  const reply = readable
    ? await answer(path, query.split('&').includes('verbose')).catch(
        (error: unknown): Reply => ({ status: 500, type: plain, text: `${wordsOf(error)}\n` }),
      )
    : { status: 405, type: plain, text: 'Only GET and HEAD.\n' }
  response.writeHead(reply.status, { 'content-type': reply.type, 'cache-control': 'no-store' })
  response.end(request.method === 'HEAD' ? undefined : reply.text)
}

async function faultOf(check: () => Promise<void>, timeoutMs: number): Promise<string | undefined> {
  const late = AbortSignal.timeout(timeoutMs)
  const timeout = new Promise<string>((resolve) => {
    late.addEventListener('abort', () => resolve(`no answer within ${timeoutMs} ms`), { once: true })
  })
  const outcome = check().then(
    () => undefined,
    (error: unknown) => wordsOf(error),
  )
  return Promise.race([outcome, timeout])
}

const wordsOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

function listenFault(error: NodeJS.ErrnoException, host: string, port: number): Error {
  if (error.code === 'EADDRINUSE') {
    const message = `Port ${port} on ${host} is in use; choose another ops port, or stop what uses it.`
    return new BelfryError('in_use', message, { cause: error })
  }
  if (error.code === 'EACCES' || error.code === 'EADDRNOTAVAIL') {
    const message = `Belfry cannot listen on ${host}:${port} (${error.code}); choose another address.`
    return new BelfryError('invalid_config', message, { cause: error })
  }
  return error
}
