/**
 * What went wrong with a call of SQS, sorted by what follows from it, with words that name the fix. Never
 * holds what was sent.
 */
import { CarrierAway } from '../../ports/announcements.ts'

/**
 *   throttled  too many calls: slow down, it is there
 *   no_queue   the service answers, the queue does not exist
 *   denied     the service answers, this identity may not do that
 *   away       no answer, a broken one, or credentials that nobody knows
 *   ended      nobody wants the answer any more
 */
export type SqsFaultKind = 'throttled' | 'no_queue' | 'denied' | 'away' | 'ended'

/** Whoever gets this goes on without SQS. */
export class SqsFault extends CarrierAway {
  readonly kind: SqsFaultKind

  constructor(kind: SqsFaultKind, message: string, options?: ErrorOptions) {
    super(message, options)
    this.kind = kind
  }
}

const throttles = /^(Throttl|RequestThrottl|TooManyRequests|OverLimit|KmsThrottled|SlowDown|BandwidthLimit)/
const missing = /^(QueueDoesNotExist|AWS\.SimpleQueueService\.NonExistentQueue|QueueDeletedRecently|NotFound)/
const denials = /^(AccessDenied|AuthorizationError|KmsAccessDenied)/
/** How the names begin that AWS has for credentials which it does not know, or not any more. */
const credentials = [
  'InvalidClientTokenId',
  'UnrecognizedClient',
  'InvalidAccessKeyId',
  'SignatureDoesNotMatch',
  'InvalidSignature',
  'IncompleteSignature',
  'MissingAuthenticationToken',
  'InvalidSecurity',
  'ExpiredToken',
  'RequestExpired',
  'OptInRequired',
  'AuthFailure',
]

/** `action` is what was called, as `ReceiveMessage`; `url` is of the queue. */
export function toSqsFault(error: unknown, action: string, url: string): SqsFault {
  if (error instanceof SqsFault) return error
  const name = error instanceof Error ? error.name : ''
  const words = error instanceof Error && error.message !== '' ? error.message : String(error)
  const fault = (kind: SqsFaultKind, message: string): SqsFault =>
    new SqsFault(kind, message, { cause: error })
  if (throttles.test(name)) return fault('throttled', `SQS throttles sqs:${action} (${name})`)
  if (missing.test(name)) return fault('no_queue', `the queue is not there; make it: ${createCommand(url)}`)
  if (denials.test(name)) {
    return fault('denied', `these credentials may not sqs:${action} on the queue; see docs/how-to/sqs.md`)
  }
  if (credentials.some((begin) => name.startsWith(begin))) {
    return fault(
      'away',
      `AWS refuses the credentials (${name}); check BELFRY_SQS_ACCESS_KEY_ID and its secret`,
    )
  }
  if (name === 'CredentialsProviderError') {
    return fault('away', 'no credentials were found on this machine; see BELFRY_SQS_CREDENTIALS')
  }
  const code = error instanceof Error && 'code' in error ? String(error.code) : name
  return fault('away', words.includes(code) ? words : `${words} (${code})`)
}

function createCommand(url: string): string {
  const name = url.slice(url.lastIndexOf('/') + 1)
  const fifo = name.endsWith('.fifo') ? ' --attributes FifoQueue=true' : ''
  return `aws sqs create-queue --queue-name ${name}${fifo}`
}
