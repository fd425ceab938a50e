/** The target of cluster tests: answers 200 after a short while and writes down every call, before it answers. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { LedgerCall } from './checker.ts'

/** Long enough that a killed process usually has calls under way. */
const workMs = 150

export interface Ledger {
  readonly url: string
  readonly calls: LedgerCall[]
  readonly close: () => Promise<void>
}

export async function startLedger(): Promise<Ledger> {
  const calls: LedgerCall[] = []
  const server = createServer((request, response) => {
    calls.push({
      runId: String(request.headers['belfry-run-id']),
      idempotencyKey: String(request.headers['idempotency-key']),
    })
    request.resume()
    const timer = setTimeout(() => response.end('done'), workMs)
    response.on('close', () => clearTimeout(timer))
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const close = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, calls, close }
}
