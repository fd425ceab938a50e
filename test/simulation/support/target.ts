// What the runs of a simulated world call, and its ledger: each call, by whom, under which lease, for how
// long, and with what answer. A call goes on at the target when its caller dies; only nobody hears of it.
import type { Handler, HandlerRequest, HandlerResult } from '../../../packages/server/src/ports/handler.ts'
import type { SimNode } from './node.ts'
import type { World } from './world.ts'

export type JobKind = 'least' | 'most' | 'shaky' | 'serial' | 'works' | 'breaks'

export interface Call {
  /** What the target answered, where the answer is on record. */
  readonly number: number
  readonly runId: string
  readonly idempotencyKey: string
  readonly leaseEpoch: number
  readonly sessionId: string
  readonly job: JobKind
  readonly atMs: number
  /** Until then it works; sooner if it is aborted. */
  endMs: number
  outcome: 'succeeded' | 'failed'
}

export interface Target {
  readonly calls: readonly Call[]
  readonly handlerOf: (node: SimNode) => Handler
}

/** Of one attempt; often longer than a lease. */
const usualMs = 400
const longMs = 5_000

/** `called`: told of each call as it begins. */
export function createTarget(
  world: World,
  jobOf: (jobId: string) => JobKind,
  called: (node: SimNode) => void,
): Target {
  const calls: Call[] = []
  const { agenda } = world

  function begin(node: SimNode, request: HandlerRequest, lengthMs: number): Call {
    const { runId, idempotencyKey, leaseEpoch, sessionId } = request
    const job = jobOf(request.jobId)
    const fails = job === 'breaks' || (job === 'shaky' && node.chance.hit(0.4))
    const call: Call = {
      number: calls.length,
      runId,
      idempotencyKey,
      leaseEpoch,
      sessionId,
      job,
      atMs: agenda.nowMs(),
      endMs: agenda.nowMs() + lengthMs,
      outcome: fails ? 'failed' : 'succeeded',
    }
    calls.push(call)
    world.note(node.name, `CALLS ${job} ${runId} epoch ${leaseEpoch}`)
    called(node)
    return call
  }

  return {
    calls,
    handlerOf: (node) => ({
      kind: 'http',
      execute(request) {
        const lengthMs = node.chance.hit(0.4)
          ? node.chance.between(usualMs, longMs)
          : node.chance.between(0, usualMs)
        const call = begin(node, request, lengthMs)
        const { promise, resolve } = Promise.withResolvers<HandlerResult>()
        const planned = node.in(lengthMs, () => resolve(answerOf(call)))
        // now and then it does not react
        if (!node.chance.hit(0.9)) return promise
        request.signal.addEventListener('abort', () => {
          planned.cancel()
          call.endMs = Math.min(call.endMs, agenda.nowMs())
          call.outcome = 'failed'
          resolve(answerOf(call))
        })
        return promise
      },
      close: async () => undefined,
    }),
  }
}

function answerOf({ number, job, outcome }: Call): HandlerResult {
  const response = `call ${number}`
  if (outcome === 'succeeded') return { outcome, httpStatus: 200, response }
  const error = { code: 'http_status', message: 'The target of this world says no.' }
  return { outcome, retryable: job !== 'breaks', error, httpStatus: 503, response }
}
