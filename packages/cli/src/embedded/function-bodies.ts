/**
 * Jobs as the engine runs them in this process: each definition becomes the body of a function, with the same
 * context, the same log and the same outcomes as in a remote worker.
 */
import type { AnyJob } from '@belfry/sdk'
import { createLogBuffer, type FunctionAnswer, runFunction } from '@belfry/sdk/functions'
import type { EmbeddedOptions } from '@belfry/server'

type Bodies = EmbeddedOptions['functions']
type Body = Bodies extends ReadonlyMap<string, infer Each> ? Each : never

export function functionBodies(jobs: readonly AnyJob[]): Bodies {
  return new Map(jobs.map((job) => [job.name, bodyOf(job)]))
}

function bodyOf(job: AnyJob): Body {
  return async (request, tools) => {
    const { runId, attempt, idempotencyKey, leaseEpoch, traceparent, signal, scheduledForMs } = request
    const logs = createLogBuffer((chunk) => tools.log(chunk))
    const { log, flushed } = logs.open({ runId, leaseEpoch })
    const answer = await runFunction(job, request.input, {
      runId,
      attempt,
      idempotencyKey,
      leaseEpoch,
      traceparent,
      signal,
      log,
      scheduledFor: scheduledForMs === null ? null : new Date(scheduledForMs),
      heartbeat: tools.progress,
    })
    await flushed()
    return resultOf(answer)
  }
}

function resultOf(answer: FunctionAnswer): Awaited<ReturnType<Body>> {
  return answer
}
