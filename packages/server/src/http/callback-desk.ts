/**
 * Takes reports of targets by their token. Who has none that is known is counted by his address, as with
 * keys: beyond the limit nothing is looked up for it.
 */
import { BelfryError, type CallbackAnswer } from '@belfry/contract'
import type { CallbackGate, ReportCall } from '../engine/callbacks/callback-gate.ts'
import { createFailedAttempts } from './failed-attempts.ts'

export interface CallbackDesk {
  /** Throws `too_many_requests`, and as the gate does. */
  report(address: string, call: ReportCall): Promise<CallbackAnswer>
}

export function createCallbackDesk(gate: CallbackGate, failuresPerMinute: number): CallbackDesk {
  const failures = createFailedAttempts({ limit: failuresPerMinute, nowMs: () => performance.now() })
  return {
    async report(address, call) {
      const refused = failures.begin(address)
      if (refused !== undefined) {
        const retryAfterSeconds = Math.max(1, Math.ceil(refused.waitMs / 1_000))
        const words = `Too many failed attempts in a minute. Try again in ${retryAfterSeconds} s.`
        throw new BelfryError('too_many_requests', words, { retryAfterSeconds })
      }
      try {
        const answer = await gate.report(call)
        failures.takeBack(address)
        return answer
      } catch (error) {
        const isUnknown = error instanceof BelfryError && error.code === 'unauthenticated'
        if (!isUnknown) failures.takeBack(address)
        throw error
      }
    },
  }
}
