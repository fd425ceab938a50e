/**
 * Holds what tenants ask for to their quotas, wherever they ask: the API, a program with Belfry inside it,
 * its own transactions. Throws `quota_exceeded` (429: wait, or have less) or `beyond_quota` (400: ask for
 * something smaller), each with the name of the quota. A dry run is judged the same and takes nothing.
 */
import { BelfryError, type QuotaName, quotaNames, quotaTable } from '@belfry/contract'
import type { Clock } from '../../ports/clock.ts'
import type { CountedQuota, QuotaBuckets } from '../../ports/quotas.ts'
import { type Ask, createQuotaLimitBook, type QuotaLimits } from './quota-limits.ts'
import { createStockCounts } from './stock-counts.ts'
import { type Ahead, aMoment, createTokenTaker } from './token-taker.ts'

export interface Asker {
  readonly tenantId: string
  readonly dryRun: boolean
  readonly ask: Ask
}

/** A field of what was asked for. */
export interface ShapeFault {
  readonly quota: QuotaName
  readonly is: number
  readonly pointer: string
}

export interface QuotaKeeper {
  /** Without asking: as they were a moment ago. */
  knownLimits(tenantId: string): QuotaLimits
  readonly defaults: QuotaLimits
  /** So many more of something that is counted. */
  room(asker: Asker, quota: CountedQuota, adds: number): Promise<void>
  /** So many runs, with inputs of these sizes at most. */
  runs(asker: Asker, count: number, largestInput: () => number): Promise<void>
  /** Throws where it is more, or for an interval less, than the quota. */
  shape(asker: Asker, faults: () => readonly ShapeFault[]): Promise<void>
  /** Bytes of logs: false where the day's are used up. Never throws for that. */
  logBytes(tenantId: string, bytes: number, ask: Ask): Promise<boolean>
  /** Its limits were changed. */
  forget(tenantId: string): void
}

const noLimits = Object.fromEntries(quotaNames.map((name) => [name, null])) as QuotaLimits

/** For whoever holds nobody to any. */
export const withoutQuotas: Pick<QuotaKeeper, 'defaults' | 'knownLimits' | 'forget'> = {
  defaults: noLimits,
  knownLimits: () => noLimits,
  forget: () => undefined,
}

const shapes: readonly QuotaName[] = [
  'scheduleIntervalMs',
  'workflowTasks',
  'workflowEdges',
  'runsInFlight',
  'inputBytes',
]

const daySeconds = 86_400
/** Of logs: many lines. */
const aPage: Ahead = { of: ({ burst }) => Math.min(64 * 1024, burst / 100), keepMs: 60_000 }
/** There is no telling when somebody deletes something. */
const stockRetrySeconds = 3_600
const runsRetrySeconds = 5

export function createQuotaKeeper(options: {
  readonly defaults: QuotaLimits
  readonly buckets: QuotaBuckets
  readonly clock: Clock
}): QuotaKeeper {
  const { defaults, clock } = options
  const limits = createQuotaLimitBook(defaults, clock)
  const stocks = createStockCounts(clock)
  const tokens = createTokenTaker(options.buckets, clock, aMoment)
  const logTokens = createTokenTaker(options.buckets, clock, aPage)

  async function room(asker: Asker, quota: CountedQuota, adds: number): Promise<void> {
    const { tenantId, dryRun, ask } = asker
    const limit = (await limits.of(tenantId, ask))[quota]
    if (limit === null || adds <= 0) return
    const used = await stocks.fullAt({ tenantId, quota, limit, adds, dryRun }, ask)
    if (used !== undefined) throw usedUp(quota, limit, used, adds)
  }

  return {
    defaults,
    knownLimits: (tenantId) => limits.known(tenantId),
    room,
    async runs(asker, count, largestInput) {
      const { tenantId, dryRun, ask } = asker
      const { runRate, inputBytes, runs } = await limits.of(tenantId, ask)
      if (inputBytes !== null) tooLarge('inputBytes', inputBytes, largestInput(), '/input')
      if (runs !== null) await room(asker, 'runs', count)
      if (runRate === null || dryRun) return
      const rate = { perSecond: runRate, burst: runRate }
      const waitMs = await tokens.take(tenantId, 'runRate', rate, count)
      if (waitMs !== undefined) throw tooFast('runRate', runRate, waitMs)
    },
    async shape({ tenantId, ask }, faults) {
      const all = await limits.of(tenantId, ask)
      if (shapes.every((quota) => all[quota] === null)) return
      for (const { quota, is, pointer } of faults()) {
        const limit = all[quota]
        if (limit === null) continue
        if (quota === 'scheduleIntervalMs') tooOften(limit, is, pointer)
        else tooLarge(quota, limit, is, pointer)
      }
    },
    async logBytes(tenantId, bytes, ask) {
      const { logBytes: limit } = await limits.of(tenantId, ask)
      if (limit === null) return true
      if (limit === 0) return false
      const rate = { perSecond: limit / daySeconds, burst: limit }
      return (await logTokens.take(tenantId, 'logBytes', rate, bytes)) === undefined
    },
    forget: (tenantId) => limits.forget(tenantId),
  }
}

const number = (value: number): string => value.toLocaleString('en')

function usedUp(quota: CountedQuota, limit: number, used: number, adds: number): BelfryError {
  const { unit } = quotaTable[quota]
  const many =
    adds > 1 ? ` These are ${number(adds)}, and there is room for ${number(Math.max(0, limit - used))}.` : ''
  const fix = quota === 'runs' ? 'Wait until some have ended' : `Delete ${unit} that are not needed`
  const message =
    `The quota "${quota}" of this tenant is used up: ` +
    `${number(Math.min(used, limit))} of ${number(limit)} ${unit}.${many} ` +
    `${fix}, or ask the operator for a larger quota.`
  const retryAfterSeconds = quota === 'runs' ? runsRetrySeconds : stockRetrySeconds
  return new BelfryError('quota_exceeded', message, { quota, retryAfterSeconds })
}

function tooFast(quota: QuotaName, limit: number, waitMs: number): BelfryError {
  const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1_000))
  const message =
    `The quota "${quota}" of this tenant is used up: ${number(limit)} ${quotaTable[quota].unit}. ` +
    `Try again in ${retryAfterSeconds} s, or ask the operator for a larger quota.`
  return new BelfryError('quota_exceeded', message, { quota, retryAfterSeconds })
}

function tooLarge(quota: QuotaName, limit: number, is: number, pointer: string): void {
  if (is <= limit) return
  const { unit } = quotaTable[quota]
  const allowed = `and the quota "${quota}" of this tenant allows ${number(limit)}`
  const fix = 'send less, or ask the operator for more'
  throw beyond(quota, pointer, `has ${number(is)} ${unit}, ${allowed}; ${fix}`)
}

/** Throws `beyond_quota`. */
export function tooOften(limit: number, is: number, pointer: string): void {
  if (is >= limit) return
  const quota = 'scheduleIntervalMs'
  const allowed = `and the quota "${quota}" of this tenant allows nothing below ${number(limit)} ms`
  const fix = 'make it less frequent, or ask the operator for more'
  throw beyond(quota, pointer, `is due again after ${number(is)} ms, ${allowed}; ${fix}`)
}

function beyond(quota: QuotaName, pointer: string, message: string): BelfryError {
  const words = pointer === '' ? `The request ${message}.` : `${pointer} ${message}.`
  return new BelfryError('beyond_quota', words, { quota, errors: [{ pointer, message }] })
}
