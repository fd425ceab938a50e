/**
 * Checks the parts of a request against their schemas. The words for each fault are those of the contract
 * (field-faults.ts), the same that files are refused with.
 */
import type { ErrorDetail, Route } from '@belfry/contract'
import { BelfryError, fieldFaults } from '@belfry/contract'
import type { z } from 'zod'

const maxDetails = 20

/** Where a part of the request stands in a pointer. */
const prefixes: Readonly<Record<string, string>> = {
  body: '',
  querystring: '/query',
  params: '/params',
  headers: '/headers',
}

/** Checks one part of a request. The error is a BelfryError `invalid_request`. */
export function validatePart(
  schema: z.ZodType,
  part: string,
  data: unknown,
): { readonly value: unknown } | { readonly error: BelfryError } {
  const result = schema.safeParse(data)
  if (result.success) return { value: result.data }
  const errors = fieldFaults(schema, data, result.error.issues, prefixes[part])
  return { error: invalidRequest(errors.slice(0, maxDetails)) }
}

/** `invalid_request` with these faults; the first ones also in words. */
export function invalidRequest(errors: readonly ErrorDetail[]): BelfryError {
  const shown = errors
    .slice(0, 3)
    .map(({ pointer, message }) => `${pointer === '' ? 'the body' : pointer} ${message}`)
  const more = errors.length > shown.length ? `; and ${errors.length - shown.length} more` : ''
  return new BelfryError('invalid_request', `The request does not fit: ${shown.join('; ')}${more}.`, {
    errors,
  })
}

/** What is not read is refused: somebody may have meant `?dryRun=true`. */
export function refuseUnread(
  route: Pick<Route, 'body' | 'query'>,
  request: { readonly body: unknown; readonly query: unknown },
): void {
  if (route.body === undefined && request.body !== undefined)
    throw invalidRequest([{ pointer: '', message: 'must be empty: this route takes no body' }])
  if (route.query !== undefined) return
  const faults = Object.keys(request.query as object).map((name) => ({
    pointer: `/query/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`,
    message: 'is unknown: this route takes no parameters',
  }))
  if (faults.length > 0) throw invalidRequest(faults)
}
