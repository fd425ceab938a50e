/**
 * Opens attempts for reports of their targets: makes the token, has its hash stored, and says where to
 * report.
 */
import { BelfryError } from '@belfry/contract'
import type { CallbackDoor, CallbackStore, CallbackTokens } from '../../ports/callbacks.ts'

export interface CallbackDoorOptions {
  readonly callbacks: Pick<CallbackStore, 'open'>
  readonly tokens: Pick<CallbackTokens, 'mint'>
  /** Where targets reach the API, without a slash at the end; undefined: nobody has said so. */
  readonly baseUrl: () => string | undefined
}

export function createCallbackDoor({ callbacks, tokens, baseUrl }: CallbackDoorOptions): CallbackDoor {
  return {
    async open(sessionId, attempt) {
      const base = baseUrl()
      if (base === undefined) {
        const fix = 'set BELFRY_PUBLIC_URL to the address at which targets reach the API'
        throw new BelfryError('invalid_config', `This worker cannot say where to report to; ${fix}.`)
      }
      const { token, hash } = tokens.mint()
      const isOpen = await callbacks.open(sessionId, attempt, hash)
      return isOpen ? { token, url: `${base}/v1/callbacks/${attempt.runId}` } : undefined
    },
  }
}
