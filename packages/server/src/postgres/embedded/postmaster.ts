/**
 * One life of one postmaster: spawn, wait until it takes connections, stop. The supervisor
 * (embedded-postgres.ts) starts the next one. It runs in a session of its own, so a Ctrl-C at the terminal
 * reaches Belfry alone, which drains first. Beside it runs a watchdog: a shell that waits for the end of a
 * pipe which only Belfry holds. When Belfry dies, by -9 too, the pipe ends and the watchdog asks the
 * postmaster for a fast shutdown, if `postmaster.pid` still names it.
 */
import type { ChildProcess } from 'node:child_process'
import { spawn } from 'node:child_process'
import { closeSync } from 'node:fs'
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { BelfryError } from '@belfry/contract'
import { clusterName, serverEnvironment } from './cluster.ts'
import { endOrphanedBackends, readPidFile } from './leftovers.ts'
import type { ServerLog } from './server-log.ts'
import type { RunAs } from './unprivileged.ts'
import { spawnAs } from './unprivileged.ts'

export type PostmasterExit = { readonly code: number | null; readonly signal: NodeJS.Signals | null }

export type Postmaster = {
  readonly pid: number
  /** Resolves when the process has ended, for whatever reason. */
  readonly exited: Promise<PostmasterExit>
  readonly kill: (signal: NodeJS.Signals) => void
}

export type PostmasterOptions = {
  readonly postgres: string
  readonly clusterDir: string
  readonly socketDir: string
  readonly port: number
  /** Listen on 127.0.0.1 too. */
  readonly loopback: boolean
  readonly runAs: RunAs
  readonly log: ServerLog
  /** Aborted by a stop in the middle of a start. */
  readonly signal: AbortSignal
  readonly onSlowStart: (elapsedMs: number) => void
}

/**
 * Crash recovery may take long and must not be cut short; a start that hangs for longer than this is
 * broken.
 */
const readyWithinMs = 10 * 60_000
const slowStartEveryMs = 10_000
const leftoversWithinMs = 30_000
const patienceWithBackendsMs = 3_000

const watchdogScript =
  'trap "" INT HUP TERM; read -r _; IFS= read -r pid < "$1/postmaster.pid" && ' +
  '[ "$pid" = "$2" ] && kill -INT "$2"'

/**
 * Starts a postmaster and waits until it accepts connections. Old backends that still hold memory are
 * waited for.
 */
export async function startPostmaster(options: PostmasterOptions): Promise<Postmaster> {
  const startedAt = performance.now()
  for (;;) {
    const position = options.log.position()
    const postmaster = await spawnPostmaster(options)
    if (await untilReady(postmaster, options)) return withWatchdog(postmaster, options)
    const words = options.log.since(position)
    const elapsedMs = performance.now() - startedAt
    if (options.signal.aborted || !isHeldByLeftovers(words) || elapsedMs > leftoversWithinMs) {
      throw startFailure(words, options)
    }
    if (elapsedMs > patienceWithBackendsMs) endOrphanedBackends(options.clusterDir)
    await sleep(200)
  }
}

/** SIGINT (fast shutdown), then SIGQUIT, then SIGKILL, each only when the one before was not enough. */
export async function stopPostmaster(postmaster: Postmaster, fastStopMs: number): Promise<PostmasterExit> {
  const steps = [
    { signal: 'SIGINT', waitMs: fastStopMs },
    { signal: 'SIGQUIT', waitMs: 10_000 },
  ] as const
  for (const { signal, waitMs } of steps) {
    postmaster.kill(signal)
    const timeout = new AbortController()
    const exit = await Promise.race([postmaster.exited, sleep(waitMs, undefined, { signal: timeout.signal })])
    timeout.abort()
    if (exit !== undefined) return exit
  }
  postmaster.kill('SIGKILL')
  return postmaster.exited
}

async function spawnPostmaster(options: PostmasterOptions): Promise<Postmaster> {
  const parameters = {
    cluster_name: clusterName(options.clusterDir),
    listen_addresses: options.loopback ? '127.0.0.1' : '',
    port: options.port,
    unix_socket_directories: options.socketDir,
    unix_socket_permissions: '0700',
  }
  const args = Object.entries(parameters).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const descriptor = options.log.open()
  let child: ChildProcess
  try {
    child = spawn(options.postgres, ['-D', options.clusterDir, ...args], {
      cwd: '/',
      env: serverEnvironment,
      stdio: ['ignore', descriptor, descriptor],
      detached: true,
      ...spawnAs(options.runAs),
    })
  } finally {
    closeSync(descriptor)
  }
  const exited = new Promise<PostmasterExit>((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }))
  })
  await new Promise((resolve, reject) => {
    child.once('spawn', resolve)
    child.once('error', reject)
  })
  child.unref()
  const kill = (signal: NodeJS.Signals) => void child.kill(signal)
  return { pid: child.pid ?? 0, exited, kill }
}

async function untilReady(postmaster: Postmaster, options: PostmasterOptions): Promise<boolean> {
  const startedAt = performance.now()
  let nextReportMs = slowStartEveryMs
  let ended = false
  void postmaster.exited.then(() => {
    ended = true
  })
  while (!ended) {
    const file = readPidFile(options.clusterDir)
    if (file?.pid === postmaster.pid && file.ready) return true
    const elapsedMs = performance.now() - startedAt
    if (options.signal.aborted || elapsedMs > readyWithinMs) await stopPostmaster(postmaster, 1_000)
    if (elapsedMs > nextReportMs) {
      options.onSlowStart(elapsedMs)
      nextReportMs += slowStartEveryMs
    }
    await sleep(10)
  }
  return false
}

function withWatchdog(postmaster: Postmaster, options: PostmasterOptions): Postmaster {
  const args = ['-c', watchdogScript, 'belfry-watchdog', options.clusterDir, String(postmaster.pid)]
  const watchdog = spawn('/bin/sh', args, {
    cwd: '/',
    env: serverEnvironment,
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
    ...spawnAs(options.runAs),
  })
  // Without a shell there is no watchdog; the next start on this data directory stops the orphan.
  watchdog.on('error', () => undefined)
  watchdog.stdin.on('error', () => undefined)
  watchdog.unref()
  if (watchdog.stdin instanceof Socket) watchdog.stdin.unref()
  const exited = postmaster.exited.then((exit) => {
    watchdog.kill('SIGKILL')
    return exit
  })
  return { ...postmaster, exited }
}

function isHeldByLeftovers(words: string): boolean {
  return /pre-existing shared memory block|lock file ".*" already exists/.test(words)
}

function startFailure(words: string, options: PostmasterOptions): BelfryError {
  if (options.signal.aborted)
    return new BelfryError('shutting_down', 'The start of Postgres was given up by a stop.')
  if (/could not bind .*address/.test(words)) {
    const message = `Port ${options.port} is taken, so Postgres cannot listen on it. Choose another.`
    return new BelfryError('invalid_config', message)
  }
  if (/No space left on device/.test(words)) {
    const message = `Postgres cannot start: the disk of ${options.clusterDir} is full. Free some space.`
    return new BelfryError('database_full', message)
  }
  const message = `Postgres did not start; the end of ${options.log.path} says:\n${words || '(nothing)'}`
  return new BelfryError('database_unavailable', message)
}
