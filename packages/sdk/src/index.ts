/**
 * The edge of `@belfry/sdk`: the client and what its
 * types are made of. Everything here is public.
 */
export { BelfryError } from '@belfry/contract'
export type { ErrorCode, ErrorDetail, Problem } from '@belfry/contract'
export { AnswerError } from './answer-errors.ts'
export { createClient } from './client.ts'
export type { Client, ClientOptions } from './client.ts'
export type { Listing, Page } from './listing.ts'
export type { Answer } from './requester.ts'
export type {
  AnswerOf,
  BodyOf,
  CallOptions,
  ChangeOptions,
  ItemOf,
  ListRoute,
  QueryOf,
  RequestArguments,
} from './route-types.ts'
export type { RetryOptions } from './transport.ts'
export type { WaitOptions } from './wait-for-run.ts'
export type { WaitUntilOptions } from './wait-until-over.ts'
