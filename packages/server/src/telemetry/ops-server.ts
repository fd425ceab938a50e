/**
 * The ops port: `/livez` (this process and its event loop, never the database), `/readyz` (every check
 * passes; not while draining) and `/metrics`. Plain and small, so that it answers when nothing else does;
 * never on the API's port. `/readyz?verbose` answers JSON: the checks, and reports, which decide nothing.
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

/** What a person wants to know who looks closer. */
export interface Finding {
  readonly status: 'ok' | 'warn'
  /** What is amiss and what to do; null where all is well. */
  readonly message: string | null
  readonly facts: Readonly<Record<string, unknown>>
}

export interface StatusReport {
  readonly name: string
  /** A failure is shown as a warning. */
  readonly report: () => Finding | Promise<Finding>
}

export interface OpsOptions {
  readonly version: string
  readonly metrics: Metrics
  readonly checks: readonly ReadinessCheck[]
  readonly reports: readonly StatusReport[]
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
const json = 'application/json; charset=utf-8'

/** What is shown here is never run, framed or kept by a browser that strays here. */
const guardingHeaders = {
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
}

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
    const reporting = verbose ? findings() : Promise.resolve([])
    const [all, found] = await Promise.all([verdicts(), reporting])
    const ready = all.every(({ fault }) => fault === undefined)
    const status = ready ? 200 : 503
    if (verbose) return { status, type: json, text: verboseText(options.version, ready, all, found) }
    const lines = all.map(({ name, fault }) =>
      fault === undefined ? `[+] ${name} ok` : `[-] ${name}: ${fault}`,
    )
    const shown = ready ? ['ok'] : [...lines, 'not ready']
    return { status, type: plain, text: `${shown.join('\n')}\n` }
  }

  function findings(): Promise<(Finding & { readonly name: string })[]> {
    return Promise.all(
      options.reports.map(async ({ name, report }) => ({ name, ...(await findingOf(report, timeoutMs)) })),
    )
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
  response.writeHead(reply.status, { 'content-type': reply.type, ...guardingHeaders })
  response.end(request.method === 'HEAD' ? undefined : reply.text)
}

function faultOf(check: () => Promise<void>, timeoutMs: number): Promise<string | undefined> {
  const outcome = check().then(
    () => undefined,
    (error: unknown) => wordsOf(error),
  )
  return inTime(outcome, timeoutMs, (words) => words)
}

function findingOf(report: StatusReport['report'], timeoutMs: number): Promise<Finding> {
  const failed = (message: string): Finding => ({ status: 'warn', message, facts: {} })
  const outcome = Promise.resolve()
    .then(report)
    .catch((error: unknown) => failed(wordsOf(error)))
  return inTime(outcome, timeoutMs, failed)
}

function inTime<T>(outcome: Promise<T>, timeoutMs: number, late: (words: string) => T): Promise<T> {
  const limit = AbortSignal.timeout(timeoutMs)
  const timeout = new Promise<T>((resolve) => {
    const end = (): void => resolve(late(`no answer within ${timeoutMs} ms`))
    limit.addEventListener('abort', end, { once: true })
  })
  return Promise.race([outcome, timeout])
}

function verboseText(
  version: string,
  ready: boolean,
  checks: readonly Verdict[],
  reports: readonly (Finding & { readonly name: string })[],
): string {
  const checked = checks.map(({ name, fault }) => {
    return { name, status: fault === undefined ? 'ok' : 'fail', message: fault ?? null }
  })
  const body = { status: ready ? 'ready' : 'not_ready', version, checks: [...checked, ...reports] }
  return `${JSON.stringify(body, null, 2)}\n`
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
