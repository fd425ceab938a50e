/**
 * `belfry worker pool` as a process, as a user would start it: what it tells, as objects, and the workers
 * that it has by the files of its state. Its workers outlive it, so the caller ends those that are left.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { parseLine } from './node-process.ts'

const launcher = fileURLToPath(new URL('../../../packages/cli/bin/belfry.js', import.meta.url))

export type Told = Readonly<Record<string, unknown>> & { readonly event: string }

export interface PoolProcess {
  readonly pid: number
  readonly told: readonly Told[]
  /** What it and its workers wrote to standard error. */
  readonly errors: () => string
  readonly signal: (name: NodeJS.Signals) => void
  readonly ended: Promise<number | NodeJS.Signals>
}

export function spawnPool(args: readonly string[], env: Record<string, string>): PoolProcess {
  const child = spawn(process.execPath, [launcher, 'worker', 'pool', '-o', 'jsonl', ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const told: Told[] = []
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text))
  createInterface({ input: child.stdout }).on('line', (line) => {
    const parsed = parseLine(line)
    if (parsed !== undefined) told.push(parsed as Told)
  })
  return {
    pid: child.pid ?? 0,
    told,
    errors: () => errors,
    signal: (name) => void child.kill(name),
    // its workers keep standard error open
    ended: once(child, 'exit').then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals),
  }
}

export interface WorkerOfPool {
  readonly number: number
  readonly pid: number
  readonly draining: boolean
}

/** Those whose processes are there. */
export function workersIn(directory: string): WorkerOfPool[] {
  if (!existsSync(directory)) return []
  return readdirSync(directory)
    .filter((name) => /^worker-\d+\.json$/.test(name))
    .flatMap((name) => {
      try {
        return [JSON.parse(readFileSync(`${directory}/${name}`, 'utf8')) as WorkerOfPool]
      } catch {
        // it has just gone
        return []
      }
    })
    .filter(({ pid }) => isAlive(pid))
    .toSorted((a, b) => a.number - b.number)
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return !/\) [ZX] /.test(existsSync('/proc/self/stat') ? readFileSync(`/proc/${pid}/stat`, 'utf8') : '')
  } catch {
    return false
  }
}
