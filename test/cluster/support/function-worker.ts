/**
 * A process that is a remote worker, for cluster tests: started by `spawnFunctionWorker`, it serves the jobs
 * below and says what happens as JSON lines on standard output. This file is both: run by itself it is the
 * worker.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
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

export interface FunctionWorkerOptions {
  readonly url: string
  readonly token: string
  /** Instead of a remote worker: Belfry embedded in that process, in the tenant of the tests. */
  readonly databaseUrl?: string
  readonly slots?: number
  /** What `task` does: `wait` for its signal, `block` the event loop so many ms, or end at once. */
  readonly task?: 'wait' | 'end' | `block:${number}`
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

/** The definition of `task`, also for those who enqueue it. */
export const taskJob = (does: FunctionWorkerOptions['task'] = 'end') =>
  defineJob({
    name: 'task',
    timeoutMs: 120_000,
    async run(_, { runId, attempt, signal }) {
      say('begun', { runId, attempt })
      if (does === 'wait') {
        await once(signal, 'abort')
        say('signal', { runId, reason: signal.reason })
      }
      if (does.startsWith('block:')) {
        const untilMs = performance.now() + Number(does.slice('block:'.length))
        while (performance.now() < untilMs);
      }
      return { attempt }
    },
  })

async function serve({ url, token, slots, task, databaseUrl }: FunctionWorkerOptions): Promise<void> {
  if (databaseUrl !== undefined) {
    const settings = { leaseMs: 4_000, heartbeatMs: 1_000 }
    const jobs = [taskJob(task)]
    const belfry = createBelfry({ databaseUrl, tenant: 'chaos', jobs, settings, migrate: false })
    await belfry.start()
    say('serves')
    return
  }
  const worker = createWorker({
    jobs: [taskJob(task)],
    url,
    token,
    slots: slots ?? 10,
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
