/**
 * What an unclean death left on a data directory, made safe before a new postmaster starts. Two on one data
 * directory would destroy it, so every step errs towards refusing. The caller owns the data directory, hence
 * whatever runs there is an orphan: its Belfry is dead.
 *
 *   1. `postmaster.pid` names a live postmaster of this cluster: it is stopped (SIGINT, later SIGQUIT) and
 *      waited for. Stopped rather than adopted: an orphan is not our child (nobody reports its end), may be
 *      of another version, runs with the settings of another start, and has no client left. It is quick.
 *   2. It names a live process that provably is something else (the number was used again): only the number
 *      in the file is made impossible. The file stays, because Postgres finds in it the shared memory of the
 *      old server and refuses to start while an old backend is attached to it. That check is never removed.
 *   3. It names nobody: left alone, Postgres itself removes it after the same check.
 *   4. Something answers on the socket although no such process is visible (a container on the same volume):
 *      refused.
 *   5. Old backends without postmaster: they end by themselves; busy ones are told to (SIGQUIT) when Postgres
 *      complains.
 */
import { readFileSync, statSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { BelfryError } from '@belfry/contract'
import { clusterName } from './cluster.ts'
import { commandLine, listProcesses, pidExists, worksIn } from './process-identity.ts'
import { socketPath } from './socket-directory.ts'
import { replaceFile } from './unprivileged.ts'

const impossiblePid = 2_147_483_647
const fastStopMs = 30_000
const immediateStopMs = 10_000

export type PidFile = {
  readonly pid: number
  readonly port: number
  readonly socketDir: string
  readonly ready: boolean
}

/** `postmaster.pid`, or undefined when there is none (or it is being written). */
export function readPidFile(clusterDir: string): PidFile | undefined {
  let lines: string[]
  try {
    lines = readFileSync(join(clusterDir, 'postmaster.pid'), 'utf8').split('\n')
  } catch {
    return undefined
  }
  const pid = Number(lines[0])
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined
  const ready = lines[7]?.trim() === 'ready'
  return { pid, port: Number(lines[3]), socketDir: (lines[4] ?? '').trim(), ready }
}

/** Steps 1 to 4 above. Returns the pid of the orphan that was stopped, if there was one. */
export async function clearLeftovers(clusterDir: string): Promise<number | undefined> {
  const file = readPidFile(clusterDir)
  if (file === undefined) return undefined
  if (!pidExists(file.pid)) {
    if (await answers(socketPath(file.socketDir, file.port))) throw unseenServer(clusterDir)
    return undefined
  }
  if (isServerOf(file.pid, clusterDir)) {
    await stopProcess(file.pid)
    return file.pid
  }
  if (await answers(socketPath(file.socketDir, file.port))) throw unseenServer(clusterDir)
  disownPidFile(clusterDir, file.pid)
  return undefined
}

/** Tells old backends of this cluster to end, once their postmaster is known to be gone (step 5). */
export function endOrphanedBackends(clusterDir: string): readonly number[] {
  const title = `postgres: ${clusterName(clusterDir)}: `
  const orphans = listProcesses().filter((each) => each.command.startsWith(title))
  for (const { pid } of orphans) signal(pid, 'SIGQUIT')
  return orphans.map(({ pid }) => pid)
}

/** True when a server accepts connections on that socket, whoever runs it. */
export function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path)
    const finish = (answer: boolean) => {
      socket.destroy()
      resolve(answer)
    }
    socket.setTimeout(2_000, () => finish(false))
    socket.once('connect', () => finish(true))
    socket.once('error', () => finish(false))
  })
}

/** A postmaster shows `postgres -D <data directory>` as its command, and works in the data directory. */
function isServerOf(pid: number, clusterDir: string): boolean {
  const command = commandLine(pid) ?? ''
  if (!/^(\S*\/)?(postgres|postmaster)( |$)/.test(command)) return false
  return worksIn(pid, clusterDir) === true || command.includes(` -D ${clusterDir} `)
}

async function stopProcess(pid: number): Promise<void> {
  signal(pid, 'SIGINT')
  if (await gone(pid, fastStopMs)) return
  signal(pid, 'SIGQUIT')
  if (await gone(pid, immediateStopMs)) return
  const message =
    `An orphaned Postgres (pid ${pid}) still runs on this data directory and does not stop. ` +
    `End it by hand (kill -QUIT ${pid}), then start Belfry again.`
  throw new BelfryError('database_unavailable', message)
}

async function gone(pid: number, withinMs: number): Promise<boolean> {
  const deadline = performance.now() + withinMs
  while (pidExists(pid)) {
    if (performance.now() > deadline) return false
    await sleep(20)
  }
  return true
}

function disownPidFile(clusterDir: string, pid: number): void {
  const path = join(clusterDir, 'postmaster.pid')
  const owner = statSync(path)
  const [, ...rest] = readFileSync(path, 'utf8').split('\n')
  if (readPidFile(clusterDir)?.pid !== pid) return
  replaceFile(path, [impossiblePid, ...rest].join('\n'), owner)
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It ended meanwhile, which is what the signal was for.
  }
}

function unseenServer(clusterDir: string): BelfryError {
  const message =
    `A Postgres that this process cannot see (another container or user?) serves ${clusterDir}. ` +
    'Stop it, or use another --data-dir.'
  return new BelfryError('in_use', message)
}
