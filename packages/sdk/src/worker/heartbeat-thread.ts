/**
 * The thread that keeps a session alive. It has an event loop of its own, so that a function which blocks
 * that of the process costs no lease. It knows one session, and imports nothing of ours: a thread resolves
 * packages otherwise than the sources do.
 *
 *   every `heartbeatMs`: POST …/heartbeat ──► renewed: the instant *before* the call is noted in shared
 *   memory
 *                                        ├──► 409, 401, 403: the session is over; say so and end
 *                                        ├──► 400, 413 with reports: again without them at once; the next
 *                                        │    one with half as many, down to the one at fault
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
/** Bytes of reports in a beat, well below what a body may have; the rest comes with the next. */
const maxReportBytes = 512 * 1024
/** Progress goes out early, but beats do not come closer together than this. */
const closestMs = 1_000

const setup = workerData as HeartbeatSetup

interface Report {
  readonly runId: string
  readonly json: string
}

const waiting = new Map<string, Report>()
/** How many go together: fewer after a refusal. */
let atOnce = maxReports
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
  try {
    waiting.set(runId, { runId, json: JSON.stringify({ runId, leaseEpoch, progress }) })
  } catch (error) {
    // checked where it was said; this keeps the thread alive whatever comes
    return tellDropped(runId, String(error))
  }
  again(Math.max(0, lastBeatMs + closestMs - performance.now()))
})

// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
const tell = (message: FromHeartbeat): void => parentPort?.postMessage(message)

const tellDropped = (runId: string, why: string): void =>
  tell({ kind: 'trouble', message: `the progress of the run ${runId} was dropped: ${why}`, retryInMs: 0 })

async function beat(): Promise<void> {
  beating = true
  lastBeatMs = performance.now()
  const nextMs = await send(nextReports())
  beating = false
  if (nextMs !== undefined) again(waiting.size > 0 ? Math.min(nextMs, closestMs) : nextMs)
}

function nextReports(): readonly Report[] {
  const reports: Report[] = []
  let bytes = 0
  for (const report of waiting.values()) {
    bytes += Buffer.byteLength(report.json) + 1
    if (reports.length >= atOnce || (reports.length > 0 && bytes > maxReportBytes)) break
    reports.push(report)
  }
  return reports
}

/** One of these is at fault: the one that it is goes, the others are sent in smaller parts. */
function narrow(reports: readonly Report[], status: number): void {
  atOnce = Math.ceil(reports.length / 2)
  const [first] = reports
  if (reports.length > 1 || first === undefined) return
  forget(reports)
  tellDropped(first.runId, `the server answered ${status}`)
}

function forget(reports: readonly Report[]): void {
  for (const report of reports) if (waiting.get(report.runId) === report) waiting.delete(report.runId)
}

/** Answers when the next one is due; undefined: there is none. */
async function send(reports: readonly Report[]): Promise<number | undefined> {
  const sentAt = process.hrtime.bigint()
  try {
    const answer = await fetch(setup.url, {
      method: 'POST',
      headers: setup.headers,
      body: `{"progress":[${reports.map(({ json }) => json).join()}]}`,
      redirect: 'manual',
      signal: AbortSignal.timeout(Math.max(500, Math.floor(setup.leaseMs / 6))),
    })
    const text = await answer.text()
    if ([401, 403, 409].includes(answer.status)) {
      tell({ kind: 'lost' })
      return undefined
    }
    // a report that does not fit must not cost the lease
    if ([400, 413].includes(answer.status) && reports.length > 0) {
      narrow(reports, answer.status)
      return await send([])
    }
    if (!answer.ok) throw new Error(`the heartbeat was answered with ${answer.status}`)
    Atomics.store(setup.renewedAt, 0, sentAt)
    forget(reports)
    if (reports.length > 0) atOnce = Math.min(maxReports, atOnce * 2)
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
