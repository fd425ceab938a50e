/**
 * A Belfry process for cluster tests: `belfry server start` from the sources, as a user would start it, configured by
 * environment alone. It can be killed, stopped (SIGSTOP) and woken; its log is kept for when a test fails.
 */
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { createInterface } from 'node:readline'

const launcher = fileURLToPath(new URL('../../../packages/cli/bin/belfry.js', import.meta.url))

export interface NodeProcess {
  readonly name: string
  readonly pid: number
  readonly apiUrl: string
  readonly opsUrl: string
  readonly log: readonly string[]
  signal(name: NodeJS.Signals): void
  /** Resolves when the process has ended. */
  readonly ended: Promise<number | NodeJS.Signals>
}

export async function startNode(name: string, env: Record<string, string>): Promise<NodeProcess> {
  const child = spawn(process.execPath, [launcher, 'server', 'start'], {
    env: { ...process.env, BELFRY_PORT: '0', BELFRY_OPS_PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const log: string[] = []
  const ended = once(child, 'exit').then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals)
  child.stderr.setEncoding('utf8').on('data', (text: string) => log.push(text))
  const ready = await readReady(child, log, ended, name)
  return {
    name,
    pid: child.pid ?? 0,
    ...ready,
    log,
    ended,
    signal: (signal) => {
      child.kill(signal)
    },
  }
}

function readReady(
  child: ChildProcess,
  log: string[],
  ended: Promise<number | NodeJS.Signals>,
  name: string,
): Promise<{ apiUrl: string; opsUrl: string }> {
  const { stdout } = child
  if (stdout === null) throw new Error('the process has no standard output')
  return new Promise((resolve, reject) => {
    createInterface({ input: stdout }).on('line', (line) => {
      log.push(line)
      const parsed = parseLine(line)
      if (parsed?.['event'] === 'ready') {
        resolve({ apiUrl: String(parsed['apiUrl']), opsUrl: String(parsed['opsUrl']) })
      }
    })
    void ended.then((how) => reject(new Error(`${name} ended (${how}) before it was ready:\n${log.join('\n')}`)))
  })
}

function parseLine(line: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(line) as Record<string, unknown>
  } catch {
    return undefined
  }
}
