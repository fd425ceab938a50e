/**
 * The calls of the worker protocol (contract/workers.ts), each sent once: who calls decides when it is safe
 * and useful to try
 * again.
 */
import type {
  AttemptReport,
  LogChunk,
  WorkerClaim,
  WorkerClaimed,
  WorkerCompleted,
  WorkerOpen,
  WorkerOpened,
} from '@belfry/contract'
import type { AnyJob } from '../functions/define-job.ts'
import { registerJobs } from '../functions/register.ts'
import { createRequester } from '../requester.ts'
import type { SentChunk } from './log-buffer.ts'

export interface ProtocolOptions {
  /** Without a slash at its end. */
  readonly url: string
  readonly token: string
  readonly fetch: typeof fetch
}

export interface Protocol {
  readonly register: (jobs: readonly AnyJob[]) => Promise<unknown>
  readonly open: (body: WorkerOpen) => Promise<WorkerOpened>
  readonly claim: (id: string, body: WorkerClaim, signal: AbortSignal) => Promise<WorkerClaimed>
  readonly complete: (id: string, ends: readonly AttemptReport[]) => Promise<WorkerCompleted['results']>
  readonly log: (id: string, chunk: LogChunk) => Promise<SentChunk | undefined>
  readonly close: (id: string) => Promise<void>
  readonly heartbeatUrl: (id: string) => string
  readonly headers: Readonly<Record<string, string>>
}

const callTimeoutMs = 15_000
/** Beyond what a claim waits at the server. */
const claimTimeoutMs = 30_000

export function createProtocol({ url, token, fetch }: ProtocolOptions): Protocol {
  const retry = { retries: 0, baseMs: 0, capMs: 0 }
  const short = createRequester(url, token, { fetch, timeoutMs: callTimeoutMs, retry })
  const long = createRequester(url, token, { fetch, timeoutMs: claimTimeoutMs, retry })
  return {
    register: (jobs) => registerJobs(short, jobs),
    open: (body) => short.request('workerOpen', { body }),
    claim: (id, body, signal) => long.request('workerClaim', { params: { id }, body, signal }),
    async complete(id, ends) {
      return (await short.request('workerComplete', { params: { id }, body: { ends: [...ends] } })).results
    },
    async log(id, chunk) {
      return (await short.request('workerLog', { params: { id }, body: { chunks: [chunk] } })).results[0]
    },
    async close(id) {
      await short.request('workerClose', { params: { id } })
    },
    heartbeatUrl: (id) => `${url}/v1/workers/${id}/heartbeat`,
    headers: {
      accept: 'application/json',
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'user-agent': 'belfry-sdk',
    },
  }
}
