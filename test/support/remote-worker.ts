// A worker of functions that speaks the protocol by hand, for tests of the API: a key bound to queues, a
// session, and short words for each call.
import type { ClaimedFunctionRun, Scope } from '@belfry/contract'
import { type Answer, type TestApi } from './api.ts'

export type HandWorker = {
  readonly id: string
  readonly key: string
  readonly call: (verb: string, body?: unknown) => Promise<Answer>
  readonly claim: (max?: number, waitMs?: number) => Promise<readonly ClaimedFunctionRun[]>
  readonly complete: (run: ClaimedFunctionRun, end: Record<string, unknown>) => Promise<unknown>
}

let keys = 0

/** A key that the tenant's administrator makes over the API. */
export async function makeKey(
  api: TestApi,
  body: { scopes: readonly Scope[]; queues?: readonly string[] },
): Promise<string> {
  const made = await api.call('POST', '/v1/keys', { body: { name: `made-by-hand-${keys++}`, ...body } })
  if (made.status !== 201) throw new Error(made.body.detail)
  return made.body.secret
}

export async function openHandWorker(
  api: TestApi,
  options: { functions: readonly string[]; queues?: readonly string[]; key?: string },
): Promise<HandWorker> {
  const { functions, queues = ['default'] } = options
  const key = options.key ?? (await makeKey(api, { scopes: ['worker'], queues }))
  const opened = await api.call('POST', '/v1/workers', { key, body: { functions, queues, slots: 10 } })
  if (opened.status !== 200) throw new Error(opened.body.detail)
  const { id } = opened.body
  const call = (verb: string, body: unknown = {}) =>
    api.call('POST', `/v1/workers/${id}/${verb}`, { key, body })
  return {
    id,
    key,
    call,
    async claim(max = 10, waitMs = 0) {
      const answer = await call('claim', { max, waitMs })
      if (answer.status !== 200) throw new Error(answer.body.detail)
      return answer.body.runs
    },
    async complete({ runId, leaseEpoch }, end) {
      const answer = await call('complete', { ends: [{ runId, leaseEpoch, durationMs: 5, ...end }] })
      if (answer.status !== 200) throw new Error(answer.body.detail)
      return answer.body.results[0]
    },
  }
}

/** Registers functions by the tenant's administrator. */
export async function registerFunctions(
  api: TestApi,
  ...jobs: readonly Record<string, unknown>[]
): Promise<void> {
  const made = await api.call('POST', '/v1/functions', { body: { jobs } })
  if (made.status !== 200) throw new Error(made.body.detail)
}

export async function enqueue(api: TestApi, job: string, input?: unknown): Promise<string> {
  const made = await api.call('POST', '/v1/runs', {
    body: { job, ...(input === undefined ? {} : { input }) },
  })
  if (made.status !== 201) throw new Error(made.body.detail)
  return made.body.id
}
