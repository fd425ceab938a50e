/**
 * What a client of somebody else's throws where an outbound call failed (egress-fetch.ts, aws-handler.ts):
 * the code and the words of the egress module, without anything of the request.
 */
import type { EgressError } from '../../ports/egress.ts'

export class EgressCallError extends Error {
  /** `target_denied` and the like. */
  readonly code: EgressError['code']
  readonly retryable: boolean

  constructor({ code, message, retryable }: Pick<EgressError, 'code' | 'message' | 'retryable'>) {
    super(message)
    this.name = 'EgressCallError'
    this.code = code
    this.retryable = retryable
  }
}
