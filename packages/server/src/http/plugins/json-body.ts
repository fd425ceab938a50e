/**
 * The one kind of body that is taken: a JSON object in UTF-8, read strictly (json-text.ts). Other types get
 * 415 before their body is looked at.
 */
import { isUtf8 } from 'node:buffer'
import type { ErrorCode } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { readJsonText } from '../json-text.ts'
import { invalidRequest } from '../validation.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The body of a public route, as it came. */
    rawBody: Buffer | null
  }
}

export function takeJsonBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.decorateRequest('rawBody', null)
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    async (request: FastifyRequest, body: Buffer) => {
      const charset = /;\s*charset\s*=\s*"?([^";\s]+)/i.exec(request.headers['content-type'] ?? '')?.[1]
      if (charset !== undefined && !/^utf-?8$/i.test(charset)) {
        throw new BelfryError('unsupported_media_type', `The body is in ${charset}; send it in UTF-8.`)
      }
      // who reports by a signature signs the bytes
      if (request.routeOptions.config.access === 'public') request.rawBody = body
      return body.length === 0 ? undefined : readBody(body)
    },
  )
}

function readBody(body: Buffer): unknown {
  if (!isUtf8(body)) throw unreadable('malformed_json', 'is not valid UTF-8; encode it as UTF-8')
  const read = readJsonText(body.toString('utf8').replace(/^\ufeff/, ''))
  if ('fault' in read) {
    const { code, pointer, message } = read.fault
    if (code === 'invalid_request') throw invalidRequest([{ pointer, message }])
    throw unreadable(code, `is not valid JSON: ${message}`)
  }
  const { value } = read
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw invalidRequest([{ pointer: '', message: 'must be a JSON object, in braces' }])
}

function unreadable(code: ErrorCode, message: string): BelfryError {
  return new BelfryError(code, `The body ${message}.`, { errors: [{ pointer: '', message }] })
}
