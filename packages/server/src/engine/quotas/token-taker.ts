/**
 * Tokens of a tenant's bucket, shared by all processes without a row that requests wait for:
 *
 *   1. a process takes tokens for its next moment in one short statement, and hands them out;
 *   2. who comes while that is under way waits for it, not for the row;
 *   3. an empty bucket says when it has some again, and until then nobody asks.
 *
 * Tokens that are not used for a while are given up, so a process that is idle holds none back for long.
 */
import type { QuotaName } from '@belfry/contract'
import type { Clock } from '../../ports/clock.ts'
import type { QuotaBuckets } from '../../ports/quotas.ts'

const maxBuckets = 10_000

/** How many tokens a process takes ahead, and how long it keeps them. */
export interface Ahead {
  readonly of: (rate: Rate) => number
  readonly keepMs: number
}

/** For what comes one by one: a tenth of a second's. */
export const aMoment: Ahead = { of: ({ perSecond }) => perSecond / 10, keepMs: 1_000 }

export interface Rate {
  readonly perSecond: number
  readonly burst: number
}

export interface TokenTaker {
  /** Undefined: taken. Else the time until it makes sense to ask again. */
  take(tenantId: string, quota: QuotaName, rate: Rate, need: number): Promise<number | undefined>
}

interface Held {
  tokens: number
  /** When they were taken. */
  atMs: number
  /** Nobody asks before. */
  emptyUntilMs: number
  fetching: Promise<void> | undefined
}

export function createTokenTaker(buckets: QuotaBuckets, clock: Clock, ahead: Ahead): TokenTaker {
  const all = new Map<string, Held>()

  function heldOf(key: string): Held {
    const known = all.get(key)
    if (known !== undefined) return known
    const [oldest] = all.size >= maxBuckets ? all.keys() : []
    if (oldest !== undefined) all.delete(oldest)
    const held: Held = { tokens: 0, atMs: 0, emptyUntilMs: 0, fetching: undefined }
    all.set(key, held)
    return held
  }

  return {
    async take(tenantId, quota, rate, need) {
      if (need <= 0) return undefined
      const held = heldOf(`${tenantId} ${quota}`)
      for (;;) {
        const nowMs = clock.monotonicMs()
        if (nowMs - held.atMs > ahead.keepMs) held.tokens = 0
        if (held.tokens >= need) {
          held.tokens -= need
          return undefined
        }
        if (nowMs < held.emptyUntilMs) return Math.ceil(held.emptyUntilMs - nowMs)
        if (held.fetching !== undefined) {
          await held.fetching
          continue
        }
        const fetched = fetchTokens(held, { tenantId, quota, rate, need })
        held.fetching = fetched.finally(() => {
          held.fetching = undefined
        })
        await held.fetching
      }
    },
  }

  async function fetchTokens(
    held: Held,
    asked: {
      readonly tenantId: string
      readonly quota: QuotaName
      readonly rate: Rate
      readonly need: number
    },
  ): Promise<void> {
    const { tenantId, quota, rate, need } = asked
    const missing = need - held.tokens
    const want = Math.max(missing, Math.floor(ahead.of(rate)))
    const { taken, waitMs } = await buckets.take({ tenantId, quota, ...rate, need: missing, want })
    const nowMs = clock.monotonicMs()
    held.tokens += taken
    held.atMs = nowMs
    held.emptyUntilMs = taken > 0 ? 0 : nowMs + waitMs
  }
}
