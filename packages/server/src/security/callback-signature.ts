/**
 * Signatures over the reports of targets. A job that signs its calls with a key that both sides hold (HMAC)
 * takes no report without one: a token that leaked is of no use alone. The id that is signed names the run
 * and says that it is a report, so neither a report of another run nor a call of Belfry itself will do. With
 * Ed25519 the target holds only the public key and cannot sign.
 */
import { BelfryError } from '@belfry/contract'
import { readSigningKey, reportIdOf, verifySignature } from '@belfry/contract/signature'
import type { CallbackSignatures } from '../ports/callbacks.ts'
import type { Clock } from '../ports/clock.ts'
import type { SecretSource } from '../ports/secrets.ts'

const reasons = {
  unsigned:
    'is not signed, and its job signs: send webhook-id, webhook-timestamp and webhook-signature over it',
  expired:
    'was signed more than five minutes ago, or ahead: sign each report when it is sent, and set the clock',
  no_match: 'is not signed by a key of its job: sign the bytes of the body as they are sent',
} as const

export function createCallbackSignatures(options: {
  readonly secrets: SecretSource
  readonly clock: Pick<Clock, 'nowMs'>
}): CallbackSignatures {
  return {
    async fault({ tenantId, jobId, runId, handler, runAs }, { headers, body }) {
      const signing = handler.kind === 'http' ? handler.signing : undefined
      if (signing === undefined) return undefined
      const names = signing.keys.map(({ secret }) => secret)
      const answer = await options.secrets.resolve({ tenantId, jobId, handler, runAs, names })
      // whoever reports can do nothing about it but come again
      if (!answer.ok) throw new BelfryError('secrets_unavailable', answer.fault.message)
      const keys = names.flatMap((name) => {
        const text = answer.values.get(name)
        return text !== undefined && readSigningKey(text)?.kind === 'hmac' ? [text.trim()] : []
      })
      if (keys.length === 0) return undefined
      const verdict = verifySignature({ headers, body, keys, nowMs: options.clock.nowMs() })
      if (!verdict.ok) return `The report ${reasons[verdict.reason]}.`
      const id = reportIdOf(runId)
      if (verdict.id === id || verdict.id.startsWith(`${id}-`)) return undefined
      return `The report was not signed as one of this run: sign it with the webhook-id ${id}.`
    },
  }
}
