/**
 * Values of a job's headers that look like secrets are never shown again: every answer has a mask in their
 * place. A change that sends the mask back means "as it is". It is taken only while the target stays on the
 * same origin, so that nobody can have a stored secret sent to a place of his own.
 */
import type { ErrorDetail, HttpHandlerDefinition, JobDefinition } from '@belfry/contract'
import { isSecretHeader, secretMask, templateParts } from '@belfry/contract'
import { invalidRequest } from './validation.ts'

type Handler = JobDefinition['handler']

export function maskedHeaders(headers: HttpHandlerDefinition['headers']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, isSecretHeader(name) ? masked(value) : value]),
  )
}

/** What may stand before a stored secret and is none itself: a scheme, or the name of a cookie. */
const harmless = /^(?:(?:apikey|basic|bearer|digest|geniekey|key|splunk|ssws|token) |[\w.-]{1,40}=)?$/i

/** A value that only names a stored secret holds none, and is shown. */
function masked(value: string): string {
  const parts = templateParts(value)
  const namesSecret = parts.some(({ kind }) => kind === 'secret')
  const rest = parts.map((part) => (part.kind === 'text' ? part.text : '')).join('')
  return namesSecret && harmless.test(rest) ? value : secretMask
}

/**
 * The handler with the stored values in the places of masks; `before` is undefined for a new job. Throws
 * `invalid_request` for a mask without a value that it could stand for.
 */
export function withoutMasks(handler: Handler, before: Handler | undefined): Handler {
  if (handler.kind !== 'http') return handler
  const stored = before?.kind === 'http' ? before : undefined
  const errors: ErrorDetail[] = []
  const sameOrigin = stored !== undefined && new URL(stored.url).origin === new URL(handler.url).origin
  const headers = Object.entries(handler.headers).map(([name, value]) => {
    if (value !== secretMask || !isSecretHeader(name)) return [name, value]
    const kept = stored === undefined ? undefined : valueOf(stored.headers, name)
    if (kept === undefined || !sameOrigin) {
      const why =
        kept === undefined ? 'is a mask, and no value is stored' : 'is a mask, and the target moves elsewhere'
      errors.push({
        pointer: `/handler/headers/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`,
        message: `${why}; send the value itself`,
      })
    }
    return [name, kept ?? value]
  })
  if (errors.length > 0) throw invalidRequest(errors)
  return { ...handler, headers: Object.fromEntries(headers) as Record<string, string> }
}

/** Names of headers are the same in any case. */
function valueOf(headers: HttpHandlerDefinition['headers'], name: string): string | undefined {
  const wanted = name.toLowerCase()
  return Object.entries(headers).find(([each]) => each.toLowerCase() === wanted)?.[1]
}
