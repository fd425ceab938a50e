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
  /** When it came, epoch ms. */
  readonly atMs: number
  /** The planned time that it is for, epoch ms; null for runs that no schedule made. */
  readonly plannedMs: number | null
}

export interface Receiver {
  readonly url: string
  readonly calls: readonly Call[]
  close(): Promise<void>
}

/**
 * `/flaky` answers 503 to the first two calls under each idempotency key, everything else 200. It takes
 * `workMs` to answer; a call is on record before.
 */
export async function startReceiver(workMs = 0): Promise<Receiver> {
  const calls: Call[] = []
  const server = createServer((request, response) => {
    const header = (name: string): string => String(request.headers[name] ?? '')
    const idempotencyKey = header('idempotency-key')
    const path = request.url ?? '/'
    request.resume().once('end', () => {
      const before = calls.filter((call) => call.idempotencyKey === idempotencyKey).length
      const status = path === '/flaky' && before < 2 ? 503 : 200
      const planned = Date.parse(header('belfry-scheduled-for'))
      calls.push({
        path,
        runId: header('belfry-run-id'),
        idempotencyKey,
        attempt: Number(header('belfry-attempt')),
        status,
        atMs: Date.now(),
        plannedMs: Number.isNaN(planned) ? null : planned,
      })
      const answer = (): unknown =>
        response.writeHead(status, { 'content-type': 'text/plain' }).end(status === 200 ? 'done' : 'not now')
      setTimeout(answer, workMs)
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
