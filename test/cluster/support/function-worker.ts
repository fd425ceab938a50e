/**
 * A process that is a remote worker, for cluster tests: started by `spawnFunctionWorker`, it serves the job
 * `task` and says what happens as JSON lines on standard output. SIGUSR2 ends its newest thread, which is the
 * one that keeps the lease. This file is both: run by itself it is the worker.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createRequire, syncBuiltinESMExports } from 'node:module'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Worker as Thread } from 'node:worker_threads'
import { createBelfry, createWorker, defineJob } from 'belfry'
import { parseLine } from './node-process.ts'

export interface FunctionWorker {
  readonly pid: number
  /** What it said, in order. */
  readonly said: readonly Said[]
  readonly errors: () => string
  readonly signal: (name: NodeJS.Signals) => void
  readonly ended: Promise<number | NodeJS.Signals>
}

export type Said = Readonly<Record<string, unknown>> & { readonly event: string }

/**
 * What `task` does: ends at once, after so many ms, or when its signal fires (`wait`); blocks the event loop
 * for so many ms, by work (`block`) or asleep (`freeze`), in its first attempt only where it ends with `!`;
 * or never ends and hears no signal (`hang`), in its first attempt.
 */
export type Task = 'wait' | 'end' | 'hang' | `${'after' | 'block' | 'freeze'}:${number}${'' | '!'}`

export interface TaskOptions {
  readonly task?: Task
  readonly queue?: string
  readonly timeoutMs?: number
  readonly maxAttempts?: number
  readonly delivery?: 'at_least_once' | 'at_most_once'
}

export interface FunctionWorkerOptions extends TaskOptions {
  readonly url: string
  readonly token: string
  /** Instead of a remote worker: Belfry embedded in that process, in the tenant of the tests. */
  readonly databaseUrl?: string
  /** Of the embedded one. */
  readonly settings?: Readonly<Record<string, unknown>>
  readonly slots?: number
}

const self = fileURLToPath(import.meta.url)
const hook = fileURLToPath(new URL('../../../scripts/lib/from-source.mjs', import.meta.url))

export function spawnFunctionWorker(options: FunctionWorkerOptions): FunctionWorker {
  const child = spawn(process.execPath, ['--import', hook, self], {
    env: { ...process.env, WORKER_OPTIONS: JSON.stringify(options) },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const said: Said[] = []
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text))
  createInterface({ input: child.stdout }).on('line', (line) => {
    const parsed = parseLine(line)
    if (parsed !== undefined) said.push(parsed as Said)
  })
  return {
    pid: child.pid ?? 0,
    said,
    errors: () => errors,
    signal: (name) => void child.kill(name),
    ended: once(child, 'close').then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals),
  }
}

const say = (event: string, more: Readonly<Record<string, unknown>> = {}): void => {
  process.stdout.write(`${JSON.stringify({ event, ...more })}\n`)
}

function blockFor(ms: number, asleep: boolean): void {
  if (asleep) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
    return
  }
  const untilMs = performance.now() + ms
  while (performance.now() < untilMs);
}

async function act(task: Task, attempt: number, signal: AbortSignal): Promise<void> {
  const [what, given = '0'] = task.split(':')
  if (given.endsWith('!') && attempt > 1) return
  const ms = Number.parseInt(given, 10)
  if (what === 'wait') await once(signal, 'abort')
  if (what === 'hang' && attempt === 1) await new Promise(() => {})
  if (what === 'after') await new Promise((resolve) => setTimeout(resolve, ms))
  if (what === 'block' || what === 'freeze') blockFor(ms, what === 'freeze')
}

/** The definition of `task`, also for those who enqueue it. */
export const taskJob = ({ task = 'end', queue, timeoutMs, maxAttempts, delivery }: TaskOptions = {}) =>
  defineJob({
    name: queue === undefined ? 'task' : `task.${queue}`,
    timeoutMs: timeoutMs ?? 120_000,
    retry: { maxAttempts: maxAttempts ?? 10, baseMs: 200, capMs: 1_000 },
    ...(queue === undefined ? {} : { queue }),
    ...(delivery === undefined ? {} : { delivery }),
    async run(_, { runId, attempt, signal }) {
      say('begun', { runId, attempt, atMs: Date.now() })
      const onAbort = (): void => say('signal', { runId, reason: signal.reason })
      signal.addEventListener('abort', onAbort)
      await act(task, attempt, signal)
      return { attempt }
    },
  })

/** Ends the thread that was made last when SIGUSR2 comes, as if it had crashed. */
function endThreadsOnSignal(): void {
  const threads = createRequire(import.meta.url)('node:worker_threads') as { Worker: typeof Thread }
  let newest: Thread | undefined
  threads.Worker = new Proxy(threads.Worker, {
    construct(target, given) {
      const made = Reflect.construct(target, given) as Thread
      newest = made
      return made
    },
  })
  syncBuiltinESMExports()
  process.on('SIGUSR2', () => {
    say('thread_ended', { was: newest !== undefined })
    void newest?.terminate()
  })
}

async function serve(options: FunctionWorkerOptions): Promise<void> {
  const { url, token, slots = 10, databaseUrl } = options
  endThreadsOnSignal()
  const jobs = [taskJob(options)]
  if (databaseUrl !== undefined) {
    const settings = { leaseMs: 4_000, heartbeatMs: 1_000, ...options.settings }
    const belfry = createBelfry({ databaseUrl, tenant: 'chaos', jobs, slots, settings, migrate: false })
    await belfry.start()
    say('serves')
    process.once('SIGTERM', () => void belfry.stop())
    return
  }
  const worker = createWorker({
    jobs,
    url,
    token,
    slots,
    drainMs: 2_000,
    abortGraceMs: 1_000,
    onEvent: ({ kind, ...event }) => {
      const words = 'error' in event && event.error instanceof Error ? { error: event.error.message } : {}
      if (kind !== 'attempt_started') say(kind, { ...event, ...words })
    },
  })
  await worker.start()
  say('serves')
}

if (process.argv[1] === self)
  await serve(JSON.parse(process.env['WORKER_OPTIONS'] ?? '') as FunctionWorkerOptions)
