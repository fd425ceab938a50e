/**
 * A real Belfry for integration tests, on a Postgres of its own that goes away with it: about two seconds to
 * start. Start one for a whole test file, and a tenant for each test if they must not see each other.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Run } from '@belfry/contract'
import type { Belfry, BelfryOptions } from '../embedded/belfry.ts'
import { createBelfry } from '../embedded/belfry.ts'

export type TestBelfryOptions = Omit<BelfryOptions, 'databaseUrl' | 'dataDir'>

export interface TestBelfry extends Belfry {
  /** Resolves with the ended run, whatever its end. Throws `wait_timeout`, after 30 s by default. */
  ended(run: { readonly id: string }, timeoutMs?: number): Promise<Run>
}

/** Started; `stop` (or `await using`) ends it and deletes its data. */
export async function startTestBelfry(options: TestBelfryOptions = {}): Promise<TestBelfry> {
  const dataDir = await mkdtemp(join(tmpdir(), 'belfry-test-'))
  const belfry = createBelfry({ logLevel: 'error', drainMs: 5_000, ...options, dataDir })
  const stop = async (): Promise<void> => {
    await belfry.stop()
    await rm(dataDir, { recursive: true, force: true })
  }
  try {
    await belfry.start()
  } catch (error) {
    await stop()
    throw error
  }
  return {
    ...belfry,
    stop,
    ended: ({ id }, timeoutMs = 30_000) => belfry.client.waitForRun(id, { timeoutMs }),
    [Symbol.asyncDispose]: stop,
  }
}
