/**
 * Token buckets: `burst` tokens at most, `count` more in each `perMs`, one for each start. Pure; a bucket
 * that nobody has used yet is full.
 */
import type { TokenLimit } from './group-limits.ts'

export interface Bucket {
  readonly tokens: number
  readonly atMs: number
}

type Rate = Pick<TokenLimit, 'count' | 'perMs' | 'burst'>

/** What stands in it at `nowMs`. A clock that went back fills nothing. */
export function tokensAt(bucket: Bucket | undefined, rate: Rate, nowMs: number): number {
  if (bucket === undefined) return rate.burst
  const gained = (Math.max(0, nowMs - bucket.atMs) * rate.count) / rate.perMs
  return Math.min(rate.burst, bucket.tokens + gained)
}

/** When it holds a whole token again. */
export function nextTokenMs(tokens: number, rate: Rate, nowMs: number): number {
  return nowMs + Math.ceil((Math.max(0, 1 - tokens) * rate.perMs) / rate.count)
}

/** When it is full, and need not be kept. */
export function fullMs(tokens: number, rate: Rate, nowMs: number): number {
  return nowMs + Math.ceil(((rate.burst - tokens) * rate.perMs) / rate.count)
}
