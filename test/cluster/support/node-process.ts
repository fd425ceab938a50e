/**
 * A Belfry process for cluster tests: `belfry server start` from the sources, as a user would start it,
 * configured by environment alone. It can be killed, stopped (SIGSTOP) and woken; its log is kept for when a
 * test fails.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { createInterface } from 'node:readline'

const launcher = fileURLToPath(new URL('../../../packages/cli/bin/belfry.js', import.meta.url))

export interface SpawnedNode {
  readonly name: string
  readonly pid: number
  /** Lines of standard output, and what came on standard error. */
  readonly log: readonly string[]
  signal(name: NodeJS.Signals): void
  /** Resolves when the process has ended. */
  readonly ended: Promise<number | NodeJS.Signals>
  /** Rejects, with the log, when it ends before. */
  readonly ready: Promise<NodeProcess>
}

/** One that is ready. */
export interface NodeProcess extends SpawnedNode {
  readonly apiUrl: string
  readonly opsUrl: string
}

/** `under`: a command that becomes the process that it is given, such as `ip netns exec`. */
export function spawnNode(
  name: string,
  env: Record<string, string>,
  under: readonly string[] = [],
): SpawnedNode {
  const [program, ...args] = [...under, process.execPath, launcher, 'server', 'start']
  const child = spawn(program ?? process.execPath, args, {
    env: { ...process.env, BELFRY_PORT: '0', BELFRY_OPS_PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const log: string[] = []
  const ready = Promise.withResolvers<NodeProcess>()
  // who does not wait for it does not care
  ready.promise.catch(() => undefined)
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals)
  const node: SpawnedNode = {
    name,
    pid: child.pid ?? 0,
    log,
    ended,
    ready: ready.promise,
    signal: (signal) => {
      child.kill(signal)
    },
  }
  child.stderr.setEncoding('utf8').on('data', (text: string) => log.push(text))
  createInterface({ input: child.stdout }).on('line', (line) => {
    log.push(line)
    const parsed = parseLine(line)
    if (parsed?.['event'] !== 'ready') return
    ready.resolve({ ...node, apiUrl: String(parsed['apiUrl']), opsUrl: String(parsed['opsUrl']) })
  })
  void ended.then((how) =>
    ready.reject(new Error(`${name} ended (${how}) before it was ready:\n${log.join('\n')}`)),
  )
  return node
}

/** A line of the log as an object; undefined where it is none. */
export function parseLine(line: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(line) as Record<string, unknown>
  } catch {
    return undefined
  }
}
