/**
 * The Belfry processes of the cluster demo: `belfry server start` as a user would start it, each with its
 * role, which can be killed like any process.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const launcher = fileURLToPath(new URL('../../../bin/belfry.js', import.meta.url))
const keptLines = 20
const stopLimitMs = 20_000

export interface ClusterNode {
  readonly name: string
  readonly pid: number
  /** How many of the 64 shards it leads; 0 where it is no scheduler, or does not answer. */
  shards(): Promise<number>
  /** kill -9. */
  kill(): Promise<void>
  /** Asks it to end, and ends it where it does not. */
  stop(): Promise<void>
}

/** Resolves when it is ready; throws, with its last words, when it ends before. */
export async function startNode(name: string, env: Record<string, string>): Promise<ClusterNode> {
  const child = spawn(process.execPath, [launcher, 'server', 'start'], {
    env: { ...process.env, BELFRY_PORT: '0', BELFRY_OPS_PORT: '0', BELFRY_LOG_LEVEL: 'info', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    // apart from the terminal, whose Ctrl-C is for the demo
    detached: true,
  })
  const killAtExit = (): unknown => child.kill('SIGKILL')
  process.once('exit', killAtExit)
  const gone = once(child, 'exit')
  void gone.then(() => process.off('exit', killAtExit))
  const opsUrl = await untilReady(name, child)
  return {
    name,
    pid: child.pid ?? 0,
    shards: () => shardsOf(opsUrl),
    async kill() {
      if (isOver(child)) return
      child.kill('SIGKILL')
      await gone
    },
    async stop() {
      if (isOver(child)) return
      child.kill('SIGTERM')
      const hard = setTimeout(() => child.kill('SIGKILL'), stopLimitMs)
      await gone
      clearTimeout(hard)
    },
  }
}

const isOver = (child: ChildProcess): boolean => child.exitCode !== null || child.signalCode !== null

function untilReady(name: string, child: ChildProcess): Promise<string> {
  const last: string[] = []
  const keep = (line: string): void => void last.splice(0, Math.max(0, last.push(line) - keptLines))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => {
      reject(new Error(`${name} ended (${code ?? signal}) before it was ready:\n${last.join('\n')}`))
    })
    if (child.stderr !== null) createInterface({ input: child.stderr }).on('line', keep)
    if (child.stdout === null) return
    createInterface({ input: child.stdout }).on('line', (line) => {
      keep(line)
      const opsUrl = readyLine(line)
      if (opsUrl !== undefined) resolve(opsUrl)
    })
  })
}

function readyLine(line: string): string | undefined {
  try {
    const { event, opsUrl } = JSON.parse(line) as { event?: unknown; opsUrl?: unknown }
    return event === 'ready' ? String(opsUrl) : undefined
  } catch {
    return undefined
  }
}

async function shardsOf(opsUrl: string): Promise<number> {
  try {
    const answer = await fetch(`${opsUrl}/metrics`, { signal: AbortSignal.timeout(2_000) })
    return Number(/^belfry_shards_held (\d+)$/m.exec(await answer.text())?.[1] ?? 0)
  } catch {
    return 0
  }
}
