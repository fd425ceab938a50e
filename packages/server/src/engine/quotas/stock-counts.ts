/**
 * Whether a tenant may have more of something. Far below its limit a count of a few seconds ago and what this
 * process added since are enough; near it the rows are counted, under a lock of the tenant for that quota, so
 * that a limit of ten is ten.
 *
 * Runs come and go far too fast for a lock. Of them a limit may be passed by what is asked for at the very
 * same moment, and what is refused is refused by a count that is a tenth of a second old, or as much older as
 * counting is dear.
 */
import type { Clock } from '../../ports/clock.ts'
import type { CountedQuota } from '../../ports/quotas.ts'
import type { Ask } from './quota-limits.ts'

const rememberMs = 10_000
/** What a count may cost: this part of the time. */
const countShare = 0.02
const leastCountedMs = 100
const maxKept = 10_000

export interface StockAsked {
  readonly tenantId: string
  readonly quota: CountedQuota
  readonly limit: number
  readonly adds: number
  /** Nothing will be added. */
  readonly dryRun: boolean
}

export interface StockCounts {
  /** Undefined: there is room. Else how many there are. */
  fullAt(asked: StockAsked, ask: Ask): Promise<number | undefined>
}

interface Seen {
  readonly count: number
  readonly atMs: number
  readonly costMs: number
  added: number
}

export function createStockCounts(clock: Clock): StockCounts {
  const all = new Map<string, Seen>()
  return {
    async fullAt({ tenantId, quota, limit, adds, dryRun }, ask) {
      const key = `${tenantId} ${quota}`
      const locks = quota !== 'runs'
      // what other processes may have added meanwhile
      const margin = locks ? Math.max(20, limit * 0.05) : 0
      const seen = all.get(key)
      const ageMs = seen === undefined ? Infinity : clock.monotonicMs() - seen.atMs
      if (seen !== undefined && ageMs < rememberMs && seen.count + seen.added + adds + margin <= limit) {
        if (!dryRun) seen.added += adds
        return undefined
      }
      const recent = seen !== undefined && ageMs < Math.max(leastCountedMs, seen.costMs / countShare)
      if (!locks && recent) return seen.count + seen.added
      const startedMs = clock.monotonicMs()
      const count = await ask(async (quotas) => {
        const found = await quotas.count(quota, limit + 1)
        if (!locks || dryRun || found + adds + margin <= limit) return found
        await quotas.lock(quota)
        return quotas.count(quota, limit + 1)
      })
      const atMs = clock.monotonicMs()
      const isFull = count + adds > limit
      const [oldest] = all.size >= maxKept ? all.keys() : []
      if (oldest !== undefined) all.delete(oldest)
      all.set(key, { count, atMs, costMs: atMs - startedMs, added: isFull || dryRun ? 0 : adds })
      return isFull ? count : undefined
    },
  }
}
