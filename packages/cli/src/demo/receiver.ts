/**
 * The target of the demo: a real HTTP server on loopback that takes Belfry's calls, fails some on purpose,
 * and keeps a ledger of what it saw.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Call {
  readonly path: string
  readonly runId: string
  readonly idempotencyKey: string
  readonly attempt: number
  readonly status: number
}

export interface Receiver {
  readonly url: string
  readonly calls: readonly Call[]
  close(): Promise<void>
}

/** `/flaky` answers 503 to the first two calls under each idempotency key, everything else 200. */
export async function startReceiver(): Promise<Receiver> {
  const calls: Call[] = []
  const server = createServer((request, response) => {
    const header = (name: string): string => String(request.headers[name] ?? '')
    const idempotencyKey = header('idempotency-key')
    const path = request.url ?? '/'
    request.resume().once('end', () => {
      const before = calls.filter((call) => call.idempotencyKey === idempotencyKey).length
      const status = path === '/flaky' && before < 2 ? 503 : 200
      const attempt = Number(header('belfry-attempt'))
      calls.push({ path, runId: header('belfry-run-id'), idempotencyKey, attempt, status })
      response.writeHead(status, { 'content-type': 'text/plain' }).end(status === 200 ? 'done' : 'not now')
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    calls,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
