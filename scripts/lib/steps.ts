// Runs the commands that the scripts are made of: prints what starts, how it ended and how long it took. A
// command that outlives its limit is ended together with its children, so that no script can hang.
import { spawn } from 'node:child_process'
import { performance } from 'node:perf_hooks'

export type Step = {
  readonly title: string
  readonly command: readonly [string, ...string[]]
  readonly limitMinutes: number
  readonly env?: Readonly<Record<string, string>>
}

/** Runs one command with its output passed through; true if it exited 0 in time. */
export async function runStep(step: Step): Promise<boolean> {
  const [program, ...args] = step.command
  console.log(`\n== ${step.title}: ${step.command.join(' ')}`)
  const startedAt = performance.now()
  const code = await exitCode(program, args, step)
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
  console.log(`== ${step.title}: ${code === 0 ? 'ok' : `FAILED (${code})`} after ${seconds} s`)
  return code === 0
}

function exitCode(program: string, args: readonly string[], step: Step): Promise<number | string> {
  return new Promise((settle) => {
    // A group of its own lets the limit reach grandchildren too.
    const child = spawn(program, args, {
      stdio: ['ignore', 'inherit', 'inherit'],
      env: { ...process.env, ...step.env },
      detached: true,
    })
    const endGroup = (signal: NodeJS.Signals) => {
      if (child.pid !== undefined) process.kill(-child.pid, signal)
    }
    const limit = setTimeout(() => endGroup('SIGKILL'), step.limitMinutes * 60_000)
    process.once('SIGINT', endGroup).once('SIGTERM', endGroup)
    const finish = (result: number | string) => {
      clearTimeout(limit)
      process.off('SIGINT', endGroup).off('SIGTERM', endGroup)
      settle(result)
    }
    child.once('error', (error) => finish(error.message))
    child.once('exit', (code, signal) => finish(code ?? signal ?? 'no exit code'))
  })
}

/** The checks that need no test runner, shared by `npm run check` and `npm test`. */
export const staticSteps: readonly Step[] = [
  { title: 'types', command: ['tsc', '-p', 'tsconfig.json'], limitMinutes: 5 },
  { title: 'lint', command: ['oxlint', '--type-aware', '--deny-warnings'], limitMinutes: 5 },
  { title: 'format', command: ['biome', 'format', '.'], limitMinutes: 5 },
  { title: 'dead code', command: ['knip'], limitMinutes: 5 },
]
