/**
 * The thread that keeps a session alive. It has an event loop of its own, so that a function which blocks
 * that of the process costs no lease. It knows one session, and imports nothing of ours: a thread resolves
 * packages otherwise than the sources do.
 *
 *   every `heartbeatMs`: POST …/heartbeat ──► renewed: the instant *before* the call is noted in shared
 *   memory
 *                                        ├──► 409, 401, 403: the session is over; say so and end
 *                                        └──► else: try again soon
 */
import { parentPort, workerData } from 'node:worker_threads'

export interface HeartbeatSetup {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly heartbeatMs: number
  readonly leaseMs: number
  /** One 64-bit number: nanoseconds on the monotonic clock, which all threads of a process share. */
  readonly renewedAt: BigInt64Array<SharedArrayBuffer>
}

/** What the session holds by the book of the server, as of a call that was sent at an instant. */
export interface Renewed {
  /** On the clock of `renewedAt`. */
  readonly sentAt: bigint
  readonly heldRunIds: readonly string[]
  readonly cancelRunIds: readonly string[]
}

export type FromHeartbeat =
  | ({ readonly kind: 'renewed' } & Renewed)
  | { readonly kind: 'lost' }
  | { readonly kind: 'trouble'; readonly message: string; readonly retryInMs: number }

export type ToHeartbeat =
  | {
      readonly kind: 'progress'
      readonly runId: string
      readonly leaseEpoch: number
      readonly progress: unknown
    }
  | { readonly kind: 'stop' }

const maxReports = 500
/** Progress goes out early, but beats do not come closer together than this. */
const closestMs = 1_000

const setup = workerData as HeartbeatSetup
const waiting = new Map<string, unknown>()
let timer: NodeJS.Timeout | undefined
let dueMs = Infinity
let beating = false
let lastBeatMs = -Infinity
let failures = 0

parentPort?.on('message', (message: ToHeartbeat) => {
  if (message.kind === 'stop') {
    clearTimeout(timer)
    beating = true
    parentPort?.close()
    return
  }
  const { runId, leaseEpoch, progress } = message
  waiting.set(runId, { runId, leaseEpoch, progress })
  again(Math.max(0, lastBeatMs + closestMs - performance.now()))
})

// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
const tell = (message: FromHeartbeat): void => parentPort?.postMessage(message)

async function beat(): Promise<void> {
  beating = true
  lastBeatMs = performance.now()
  const nextMs = await send([...waiting.values()].slice(0, maxReports))
  beating = false
  if (nextMs !== undefined) again(waiting.size > 0 ? Math.min(nextMs, closestMs) : nextMs)
}

/** Answers when the next one is due; undefined: there is none. */
async function send(progress: readonly unknown[]): Promise<number | undefined> {
  const sentAt = process.hrtime.bigint()
  try {
    const answer = await fetch(setup.url, {
      method: 'POST',
      headers: setup.headers,
      body: JSON.stringify({ progress }),
      redirect: 'manual',
      signal: AbortSignal.timeout(Math.max(500, Math.floor(setup.leaseMs / 6))),
    })
    const text = await answer.text()
    if ([401, 403, 409].includes(answer.status)) {
      tell({ kind: 'lost' })
      return undefined
    }
    // a report that does not fit must not cost the lease
    if (answer.status === 400) waiting.clear()
    if (!answer.ok) throw new Error(`the heartbeat was answered with ${answer.status}`)
    Atomics.store(setup.renewedAt, 0, sentAt)
    for (const report of progress) {
      const { runId } = report as { runId: string }
      if (waiting.get(runId) === report) waiting.delete(runId)
    }
    tell({ kind: 'renewed', ...(JSON.parse(text) as Omit<Renewed, 'sentAt'>), sentAt })
    failures = 0
    return setup.heartbeatMs * (0.9 + Math.random() / 10)
  } catch (error) {
    const ceilingMs = Math.min(setup.heartbeatMs, 100 * 2 ** Math.min(failures++, 6))
    const retryInMs = Math.round(ceilingMs * (0.5 + Math.random() / 2))
    const message = error instanceof Error ? error.message : String(error)
    tell({ kind: 'trouble', message, retryInMs })
    return retryInMs
  }
}

/** The next beat comes after so long, or earlier if it was to. */
function again(delayMs: number): void {
  const atMs = performance.now() + delayMs
  if (beating || (timer !== undefined && dueMs <= atMs)) return
  clearTimeout(timer)
  dueMs = atMs
  timer = setTimeout(() => {
    timer = undefined
    void beat()
  }, delayMs)
}

again(setup.heartbeatMs * (0.5 + Math.random() / 2))
