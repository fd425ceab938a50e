/**
 * The target of cluster tests: writes down every call before it answers. `/work` answers 200 after a short
 * while; `/held` answers when the test lets it (`release`), or never; `/busy` answers 503 until `recover`.
 */
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { LedgerCall } from './checker.ts'

/** Long enough that a killed process usually has calls under way. */
const workMs = 150

export interface RecordedCall extends LedgerCall {
  readonly path: string
  readonly attempt: number
  readonly atMs: number
  /** In which order calls began and ended, all of them together; `ended` undefined: it is under way. */
  readonly began: number
  ended?: number
}

export interface Ledger {
  readonly url: string
  readonly calls: RecordedCall[]
  /** Calls of `/held` whose caller still waits. */
  readonly holding: () => number
  /** Answers what is held, and from now on `/held` at once. */
  readonly release: () => void
  /** From now on `/busy` answers 200. */
  readonly recover: () => void
  readonly close: () => Promise<void>
}

export async function startLedger(): Promise<Ledger> {
  const calls: RecordedCall[] = []
  const held = new Set<ServerResponse>()
  let released = false
  let busy = true
  let turns = 0
  const server = createServer((request, response) => {
    const { headers, url = '' } = request
    const recorded: RecordedCall = {
      runId: String(headers['belfry-run-id']),
      idempotencyKey: String(headers['idempotency-key']),
      path: url,
      attempt: Number(headers['belfry-attempt']),
      atMs: Date.now(),
      began: ++turns,
    }
    calls.push(recorded)
    // also when its caller was killed
    const end = (): void => {
      recorded.ended ??= ++turns
    }
    response.on('close', end)
    request.resume()
    if (url === '/held' && !released) {
      held.add(response)
      response.on('close', () => held.delete(response))
      return
    }
    if (url === '/busy' && busy) response.statusCode = 503
    const timer = setTimeout(() => {
      end()
      response.end('done')
    }, workMs)
    response.on('close', () => clearTimeout(timer))
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    holding: () => held.size,
    release() {
      released = true
      for (const response of held) response.end('done')
    },
    recover() {
      busy = false
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
