/**
 * The thread behind lease-keeper.ts: renews one session on a connection of its own, on an event loop that no
 * function can block. It imports the driver and how to connect, and no package of ours: a thread resolves
 * those otherwise than the sources do, so the text of its statements is handed in.
 *
 *   every third of the lease: BEGIN, scope, renew, COMMIT in one go ──► alive: the instant *before* is noted
 *                                                                  └──► failed: a new connection, soon
 */
import { parentPort, workerData } from 'node:worker_threads'
import type pg from 'pg'
import type { ConnectionOptions } from './hosts.ts'
import { connectToOne, hostsOf } from './hosts.ts'

export interface LeaseThreadSetup {
  readonly connection: ConnectionOptions
  readonly begin: string
  readonly commit: string
  readonly enterScope: { readonly text: string; readonly values: readonly string[] }
  /** Takes the session and the length of its lease; answers `alive`. */
  readonly renew: string
  /** Nanoseconds on the monotonic clock, which all threads of a process share. */
  readonly renewedAt: BigInt64Array<SharedArrayBuffer>
}

export type ToLeaseThread =
  | { readonly kind: 'hold'; readonly sessionId: string; readonly leaseMs: number }
  | { readonly kind: 'drop' }
  | { readonly kind: 'stop' }

const retryMs = 250

const setup = workerData as LeaseThreadSetup
const hosts = hostsOf(setup.connection)
let held: { readonly sessionId: string; readonly leaseMs: number } | undefined
let client: pg.Client | undefined
let timer: NodeJS.Timeout | undefined

async function connected(timeoutMs: number): Promise<pg.Client> {
  if (client !== undefined) return client
  const settings = {
    application_name: 'belfry-lease-thread',
    connectionTimeoutMillis: timeoutMs,
    query_timeout: timeoutMs,
    // a renewal is one packet
    pipeline: true,
  }
  const { client: made } = await connectToOne(hosts, settings)
  made.on('error', () => forget(made))
  client = made
  return made
}

function forget(broken: pg.Client | undefined): void {
  if (client === broken) client = undefined
  broken?.end().catch(() => undefined)
}

async function renew(sessionId: string, leaseMs: number): Promise<boolean> {
  const sentAt = process.hrtime.bigint()
  const open = await connected(Math.max(500, Math.floor(leaseMs / 6)))
  const { text, values } = setup.enterScope
  const sent = [
    open.query(setup.begin),
    open.query(text, [...values]),
    open.query<{ alive: boolean }>(setup.renew, [sessionId, leaseMs]),
    open.query(setup.commit),
  ] as const
  const [, , answer] = await Promise.all(sent)
  const alive = answer.rows[0]?.alive === true
  if (alive && held?.sessionId === sessionId) Atomics.store(setup.renewedAt, 0, sentAt)
  return alive
}

async function beat(): Promise<void> {
  const now = held
  if (now === undefined) return
  try {
    const alive = await renew(now.sessionId, now.leaseMs)
    // one that has ended is not asked for again; who holds it hears of that by himself
    if (alive) again(now.leaseMs / 3)
  } catch {
    forget(client)
    again(retryMs)
  }
}

function again(delayMs: number): void {
  clearTimeout(timer)
  timer = setTimeout(() => void beat(), delayMs)
}

parentPort?.on('message', (message: ToLeaseThread) => {
  held = message.kind === 'hold' ? message : undefined
  if (message.kind === 'hold') again(message.leaseMs / 3)
  else clearTimeout(timer)
  if (message.kind !== 'stop') return
  forget(client)
  parentPort?.close()
})
