/**
 * `belfry/testing`: helpers for the tests of programs that define jobs. An inline Belfry in memory with a
 * clock that tests set, and a throw-away real one on a Postgres of its own.
 */
export { expectEnqueued } from './testing/expect-enqueued.ts'
export type { EnqueuedRun, InlineBelfry, InlineOptions, InlineResult } from './testing/inline-belfry.ts'
export { createInlineBelfry } from './testing/inline-belfry.ts'
export type { TestBelfry, TestBelfryOptions } from './testing/throw-away.ts'
export { startTestBelfry } from './testing/throw-away.ts'
