/**
 * Strong entity tags, made of a resource's version, and the precondition that names them. Every change of a
 * job or a schedule makes a new version; a fire does not.
 */
import { BelfryError } from '@belfry/contract'

const tagList = /^\s*(?:\*|(?:W\/)?"[^"\u0000-\u0020]*"(?:\s*,\s*(?:W\/)?"[^"\u0000-\u0020]*")*)\s*$/

export const etagOf = (version: number): string => `"${version}"`

/**
 * Throws `precondition_failed` if `If-Match` names other versions than the present one, `invalid_request` if
 * it is no list of tags.
 */
export function checkIfMatch(header: string | undefined, version: number): void {
  if (header === undefined || header.trim() === '*') return
  const pointer = '/headers/if-match'
  if (!tagList.test(header)) {
    const message = 'is not an entity tag; send the ETag as you got it, in double quotes'
    throw new BelfryError('invalid_request', `If-Match ${message}.`, { errors: [{ pointer, message }] })
  }
  // A weak tag never matches strongly.
  const tags: readonly string[] = header.match(/(?:W\/)?"[^"]*"/g) ?? []
  if (tags.includes(etagOf(version))) return
  const message =
    `names ${header.trim()}, but the version is now ${etagOf(version)}; ` +
    'read it again, then repeat your change'
  throw new BelfryError('precondition_failed', `If-Match ${message}.`, { errors: [{ pointer, message }] })
}
