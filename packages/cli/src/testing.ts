/**
 * `belfry/testing`: helpers for the tests of programs that define jobs. An inline Belfry in memory with a
 * clock that tests set, and a throw-away real one on a Postgres of its own, whose clock tests may set too.
 */
export { expectEnqueued } from './testing/expect-enqueued.ts'
export type { EnqueuedRun, InlineResult } from './testing/inline-attempt.ts'
export type { InlineBelfry, InlineOptions } from './testing/inline-belfry.ts'
export { createInlineBelfry } from './testing/inline-belfry.ts'
export type {
  MoveOptions,
  ThrowAwayBelfry,
  ThrowAwayClock,
  ThrowAwayOptions,
} from './testing/throw-away.ts'
export { startThrowAwayBelfry } from './testing/throw-away.ts'
