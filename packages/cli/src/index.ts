/**
 * The edge of the package `belfry`: what programs import.
 * The command line itself starts in `main.ts`.
 */
export {
  AnswerError,
  BelfryError,
  cancel,
  createClient,
  createWorker,
  defineJob,
  fail,
  retryAfter,
} from '@belfry/sdk'
export type * from '@belfry/sdk'
