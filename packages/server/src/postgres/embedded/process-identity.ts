/**
 * Tells processes apart although their numbers are reused: a process is its pid together with its start
 * time (and, on Linux, the boot and the pid namespace it was seen in). Part of the embedded server: the
 * owner record of a data directory and the check of a stale `postmaster.pid` rest on it.
 * Invariant: `unknown` is answered whenever this process cannot judge; callers must not treat it as dead.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'

/** What is written down about a process. `start` only means something within the same `scope`. */
export type ProcessIdentity = { readonly pid: number; readonly start: string; readonly scope: string }

export type Liveness = 'alive' | 'dead' | 'unknown'

/** Identity of this process. */
export function ownIdentity(): ProcessIdentity {
  return { pid: process.pid, start: startTime(process.pid) ?? '', scope: ownScope() }
}

/**
 * Whether the process that `identity` describes still runs. Another pid namespace on the same boot cannot
 * be judged.
 */
export function livenessOf(identity: ProcessIdentity): Liveness {
  const here = ownScope()
  if (identity.scope !== here) {
    // Another boot: whatever ran then is gone. Same boot, other namespace (a container sharing the volume):
    // not visible.
    return bootOf(identity.scope) === bootOf(here) ? 'unknown' : 'dead'
  }
  if (!pidExists(identity.pid)) return 'dead'
  const start = startTime(identity.pid)
  if (start === undefined) return pidExists(identity.pid) ? 'unknown' : 'dead'
  return start === identity.start ? 'alive' : 'dead'
}

/**
 * True while some process has this number, ours or not. A zombie counts as gone: it holds nothing any more.
 */
export function pidExists(pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
  return !isZombie(pid)
}

/** The command line of a process as one string, or undefined when there is none to read. */
export function commandLine(pid: number): string | undefined {
  if (process.platform === 'linux') {
    const raw = readOrUndefined(`/proc/${pid}/cmdline`)
    return raw === undefined || raw === '' ? undefined : raw.split('\0').join(' ').trim()
  }
  return ps(pid, 'command')
}

/**
 * Whether the working directory of a process is `directory` (by inode); undefined where the system does not
 * tell.
 */
export function worksIn(pid: number, directory: string): boolean | undefined {
  try {
    const theirs = statSync(`/proc/${pid}/cwd`)
    const wanted = statSync(directory)
    return theirs.dev === wanted.dev && theirs.ino === wanted.ino
  } catch {
    return undefined
  }
}

/** All processes: pid and command line. Used to find what an unclean death left behind. */
export function listProcesses(): readonly { readonly pid: number; readonly command: string }[] {
  if (process.platform === 'linux') {
    const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
    return pids.map((name) => ({ pid: Number(name), command: commandLine(Number(name)) ?? '' }))
  }
  const text = run('ps', ['-axww', '-o', 'pid=,command=']) ?? ''
  return text.split('\n').flatMap((line) => {
    const match = /^\s*(\d+)\s+(.*)$/.exec(line)
    return match ? [{ pid: Number(match[1]), command: match[2] ?? '' }] : []
  })
}

function startTime(pid: number): string | undefined {
  if (process.platform !== 'linux') return ps(pid, 'lstart')
  return statFields(pid)?.[19]
}

/**
 * Fields of /proc/<pid>/stat after the name, which may itself hold blanks and brackets. Index 0 is the
 * state.
 */
function statFields(pid: number): readonly string[] | undefined {
  const raw = readOrUndefined(`/proc/${pid}/stat`)
  return raw?.slice(raw.lastIndexOf(')') + 2).split(' ')
}

function isZombie(pid: number): boolean {
  if (process.platform === 'linux') return /^[ZX]/.test(statFields(pid)?.[0] ?? '')
  return ps(pid, 'state')?.startsWith('Z') ?? false
}

let scope: string | undefined

function ownScope(): string {
  scope ??= [readOrUndefined('/proc/sys/kernel/random/boot_id')?.trim() ?? 'boot', pidNamespace()].join(' ')
  return scope
}

function bootOf(text: string): string | undefined {
  return text.split(' ')[0]
}

function pidNamespace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid')
  } catch {
    return 'pid:host'
  }
}

function ps(pid: number, column: string): string | undefined {
  return run('ps', ['-ww', '-o', `${column}=`, '-p', String(pid)])?.trim() || undefined
}

function run(command: string, args: readonly string[]): string | undefined {
  try {
    return execFileSync(command, args, {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      env: { ...process.env, LC_ALL: 'C', TZ: 'UTC' },
      maxBuffer: 64 * 1024 * 1024,
    })
  } catch {
    return undefined
  }
}

function readOrUndefined(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
