/**
 * A server and workers of functions around it, for cluster tests: started and ended with the test, waited for
 * by what they say.
 */
import type { Client } from '@belfry/sdk'
import { eventually } from '../../support/running.ts'
import type { Arena, ArenaHarness } from './arena.ts'
import {
  type FunctionWorker,
  type FunctionWorkerOptions,
  type Said,
  spawnFunctionWorker,
} from './function-worker.ts'

export interface WorkerRig {
  readonly arena: Arena
  /** Of the server `a`. */
  readonly client: Client
  /** Of a key with the scope `worker`. */
  readonly token: string
  /** Starts a worker and waits until it serves. */
  readonly start: (options?: Partial<FunctionWorkerOptions>) => Promise<FunctionWorker>
}

export async function openWorkerRig(
  harness: ArenaHarness,
  options: { readonly env?: Record<string, string>; readonly queues?: readonly string[] } = {},
): Promise<WorkerRig> {
  const arena = await harness.open(options.env === undefined ? {} : { env: options.env })
  const node = await arena.start('a')
  const client = arena.client()
  const queues = ['default', ...(options.queues ?? [])]
  const { secret: token } = await client.keys.create({ name: 'worker', scopes: ['worker'], queues })
  if (token === null) throw new Error('a new key shows its secret')
  return {
    arena,
    client,
    token,
    async start(more = {}) {
      const worker = spawnFunctionWorker({ url: node.apiUrl, token, ...more })
      harness.defer(async () => {
        worker.signal('SIGCONT')
        worker.signal('SIGKILL')
        await worker.ended
      })
      const serves = () => heard(worker, 'serves').length > 0
      await eventually(serves, 'a worker that serves', 30_000).catch((error: unknown) => {
        throw new Error(`${String(error)}: ${worker.errors()}${JSON.stringify(worker.said)}`)
      })
      return worker
    },
  }
}

export const heard = (worker: FunctionWorker, event: string): readonly Said[] =>
  worker.said.filter((each) => each.event === event)

export const begun = (worker: FunctionWorker): readonly Said[] => heard(worker, 'begun')

const atOnce = 50

/** Asks for so many runs, as many at a time as one key may. Answers their ids. */
export async function enqueueMany(
  client: Client,
  job: Parameters<Client['enqueue']>[0],
  count: number,
): Promise<string[]> {
  const ids: string[] = []
  while (ids.length < count) {
    const some = Array.from({ length: Math.min(atOnce, count - ids.length) }, () =>
      client.enqueue<unknown>(job, null),
    )
    ids.push(...(await Promise.all(some)).map(({ id }) => id))
  }
  return ids
}
