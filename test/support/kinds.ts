// The kinds of tests: one row a folder under test/. vitest.config.ts makes a project of each row, and
// scripts/test.ts runs them one after the other in this order, cheapest first. A new kind is a new row here
// and a folder.

export type TestKind = {
  /** Folder under test/ and name of the vitest project. */
  readonly name: string
  /** Test files that may run at the same time; 1 where a file needs the machine to itself. */
  readonly workers: number
  /** Limit for one test or hook. */
  readonly timeoutMs: number
  /** Limit for the whole kind, after which scripts/test.ts ends it and counts a failure. */
  readonly limitMinutes: number
  /** Whether test/support/global-postgres.ts starts a server for the whole kind. */
  readonly postgres: boolean
}

export const testKinds: readonly TestKind[] = [
  { name: 'tidy', workers: 2, timeoutMs: 30_000, limitMinutes: 5, postgres: false },
  { name: 'domain', workers: 2, timeoutMs: 30_000, limitMinutes: 10, postgres: false },
  { name: 'cli', workers: 2, timeoutMs: 30_000, limitMinutes: 10, postgres: false },
  { name: 'postgres', workers: 2, timeoutMs: 60_000, limitMinutes: 20, postgres: true },
  { name: 'conformance', workers: 2, timeoutMs: 60_000, limitMinutes: 20, postgres: true },
  { name: 'http', workers: 2, timeoutMs: 60_000, limitMinutes: 20, postgres: true },
  { name: 'simulation', workers: 1, timeoutMs: 300_000, limitMinutes: 30, postgres: true },
  { name: 'cluster', workers: 1, timeoutMs: 300_000, limitMinutes: 55, postgres: false },
  { name: 'e2e', workers: 1, timeoutMs: 120_000, limitMinutes: 20, postgres: false },
  { name: 'pack', workers: 1, timeoutMs: 300_000, limitMinutes: 15, postgres: false },
]
