/**
 * The worker processes of a pool. Each is in a session of its own, so that neither Ctrl-C at the pool nor its
 * death reaches them: they are told to end by one SIGTERM, once, and never by anything harder. A second one
 * would make a worker drop what it runs, so one of which it is not known whether it was told is left alone.
 */
import { spawn } from 'node:child_process'
import type { PoolDirectory, WorkerRecord } from './pool-directory.ts'
import { beginningOf } from './process-identity.ts'

export interface Launch {
  readonly command: string
  readonly args: (number: number) => readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly fingerprint: string
}

export interface PoolWorker extends WorkerRecord {
  /** Local monotonic time; of one that was taken over: when that was. */
  readonly sinceMs: number
}

/** What became of workers since the last look. */
export interface Ended {
  readonly worker: PoolWorker
  readonly livedMs: number
}

export interface PoolWorkers {
  readonly all: () => readonly PoolWorker[]
  /** Undefined: it could not be started, and `why` was told. */
  readonly start: () => PoolWorker | undefined
  readonly drain: (number: number) => void
  readonly ended: () => readonly Ended[]
}

export interface PoolWorkersOptions {
  readonly directory: PoolDirectory
  readonly launch: Launch
  readonly monotonicMs: () => number
  readonly onFault: (why: string) => void
}

export function createPoolWorkers(options: PoolWorkersOptions): PoolWorkers {
  const { directory, launch, monotonicMs } = options
  const workers = new Map<number, PoolWorker>()
  for (const record of directory.living()) workers.set(record.number, { ...record, sinceMs: monotonicMs() })

  function keep(worker: PoolWorker): PoolWorker {
    const { number, pid, began, fingerprint, draining } = worker
    workers.set(number, worker)
    directory.write({ number, pid, began, fingerprint, draining })
    return worker
  }

  function freeNumber(): number {
    let number = 1
    while (workers.has(number)) number += 1
    return number
  }

  return {
    all: () => [...workers.values()].toSorted((a, b) => a.number - b.number),
    start() {
      const number = freeNumber()
      const child = spawn(launch.command, [...launch.args(number)], {
        detached: true,
        // its log goes where the pool's words go, also when the pool is gone
        stdio: ['ignore', 2, 2],
        env: { ...launch.env },
      })
      child.on('error', (error) => options.onFault(error.message))
      child.unref()
      const { pid } = child
      const began = pid === undefined ? undefined : beginningOf(pid)
      if (pid === undefined || began === undefined) return undefined
      const { fingerprint } = launch
      return keep({ number, pid, began, fingerprint, draining: false, sinceMs: monotonicMs() })
    },
    drain(number) {
      const worker = workers.get(number)
      if (worker === undefined || worker.draining || beginningOf(worker.pid) !== worker.began) return
      // on record first: a second signal would end what it still runs
      keep({ ...worker, draining: true })
      process.kill(worker.pid, 'SIGTERM')
    },
    ended() {
      const gone = [...workers.values()].filter(({ pid, began }) => beginningOf(pid) !== began)
      return gone.map((worker) => {
        workers.delete(worker.number)
        directory.remove(worker.number)
        return { worker, livedMs: monotonicMs() - worker.sinceMs }
      })
    },
  }
}
