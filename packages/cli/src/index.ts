/**
 * The edge of the package `belfry`: what programs import.
 * The command line itself starts in `main.ts`.
 */
export {
  all,
  any,
  AnswerError,
  at,
  BelfryError,
  cancel,
  createClient,
  createWorker,
  defineJob,
  defineWorkflow,
  equals,
  fail,
  is,
  not,
  orElse,
  retryAfter,
  skip,
} from '@belfry/sdk'
export type * from '@belfry/sdk'
export { createBelfry } from './embedded/belfry.ts'
export type { Belfry, BelfryOptions, InsideOptions, TransactionClient } from './embedded/belfry.ts'
