/**
 * What a row of the table of API routes (routes.ts) says. A route without a permission does not exist: deny
 * is the default.
 */
import type { z } from 'zod'
import type { ErrorCode } from './errors.ts'
import type { Permission } from './permissions.ts'

export type Route = {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  readonly path: string
  /**
   * What it takes. `any_key`: any credential; the endpoint says what more it takes. `public`: nobody has to
   * be known.
   */
  readonly permission: Permission | 'any_key' | 'public'
  readonly tag: string
  readonly summary: string
  readonly params?: z.ZodObject
  readonly query?: z.ZodObject
  readonly body?: z.ZodType
  /** No schema: 204 without a body, or 303 to another place. */
  readonly response?: z.ZodType
  /** JSON if left out. Of a stream, `response` says what stands in the data of an event. */
  readonly media?: 'text/event-stream'
  readonly status: 200 | 201 | 202 | 204 | 303
  /** Status where what was asked for is part of something that is there already. */
  readonly joinedStatus?: 200
  /** Of a body that may be larger than `maxBodyBytes`. */
  readonly bodyBytes?: number
  /** `create`: honours Idempotency-Key. `change`: honours If-Match where the answer carries an ETag. */
  readonly effect: 'none' | 'create' | 'change'
  readonly errors: readonly ErrorCode[]
}
