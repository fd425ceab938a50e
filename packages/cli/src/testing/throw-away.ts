/**
 * A real Belfry for integration tests, on a Postgres of its own that goes away with it: about two seconds to
 * start. Start one for a whole test file, and a tenant for each test if they must not see each other.
 *
 * With `clock` time stands still, and the test moves it: everything that is planned up to the new time
 * happens in order, each at its own time, by the real engine. Such a database is good for nothing else, so
 * this works on the data directory that is made here and nowhere else.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Run } from '@belfry/contract'
import type { Belfry, BelfryOptions } from '../embedded/belfry.ts'
import { createWithClock } from '../embedded/belfry.ts'

export type ThrowAwayOptions = Omit<BelfryOptions, 'databaseUrl' | 'dataDir'> & {
  /** Where the clock stands at the start, and from then on until it is set. Without it time is real. */
  readonly clock?: Date | string
}

export interface MoveOptions {
  /**
   * False: does not wait for runs to end, for functions that wait for the test to go on. Default true: at
   * each due instant, what began there ends before the next one comes.
   */
  readonly settle?: boolean
}

export interface ThrowAwayClock {
  now(): Date
  /**
   * Resolves when everything that was planned until then has happened: schedules, delayed runs, retries.
   * Throws `invalid_request` for a time before the present one, `invalid_state` where time is real, and
   * `wait_timeout` where something does not end within 30 s.
   */
  set(to: Date | string, options?: MoveOptions): Promise<void>
  advance(ms: number, options?: MoveOptions): Promise<void>
}

export interface ThrowAwayBelfry extends Belfry {
  readonly clock: ThrowAwayClock
  /** Resolves with the ended run, whatever its end. Throws `wait_timeout`, after 30 s by default. */
  ended(run: { readonly id: string }, timeoutMs?: number): Promise<Run>
}

/** Started; `stop` (or `await using`) ends it and deletes its data. */
export async function startThrowAwayBelfry(options: ThrowAwayOptions = {}): Promise<ThrowAwayBelfry> {
  const { clock: clockAt, ...rest } = options
  const clockAtMs = clockAt === undefined ? undefined : new Date(clockAt).getTime()
  if (Number.isNaN(clockAtMs))
    throw new TypeError(`clock: ${String(clockAt)} is not a time; write it like 2026-12-01T02:30:00Z.`)
  const dataDir = await mkdtemp(join(tmpdir(), 'belfry-test-'))
  const made = createWithClock({ logLevel: 'error', drainMs: 5_000, ...rest, dataDir }, clockAtMs)
  const { belfry } = made
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
  const set = (toMs: number, { settle = true }: MoveOptions = {}) => made.time().set(toMs, settle)
  return {
    ...belfry,
    stop,
    clock: {
      now: () => new Date(clockAtMs === undefined ? Date.now() : made.time().nowMs()),
      set: async (to, moveOptions) => set(new Date(to).getTime(), moveOptions),
      advance: async (ms, moveOptions) => set(made.time().nowMs() + ms, moveOptions),
    },
    ended: ({ id }, timeoutMs = 30_000) => belfry.client.waitForRun(id, { timeoutMs }),
    [Symbol.asyncDispose]: stop,
  }
}
