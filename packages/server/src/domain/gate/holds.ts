/**
 * What holds a group behind the gate, for people who ask: the line that it waits in, with what is taken of
 * that limit. Pure; in words it is told by hold-words.ts.
 */
import type { HoldKind } from '@belfry/contract'
import { nextTokenMs, tokensAt } from './buckets.ts'
import type { GroupLimits, SlotLimit } from './group-limits.ts'
import type { Standing } from './openings.ts'
import { lineOf } from './openings.ts'

export interface GroupStanding {
  /** The line that it waits in; null: none. */
  readonly waitsOn: string | null
  readonly heldBy: string | null
  readonly lookAtMs: number
}

export interface Obstacle {
  readonly kind: HoldKind
  /** Of the job or the pool whose limit it is. */
  readonly name: string | null
  /** Where the key stands in the input, of a limit or a rate that counts by key. */
  readonly keyPath: string | null
  /** Of a rate: it is that of a pool. */
  readonly ofPool: boolean
  readonly limit: number | null
  readonly used: number | null
  /** Of the limit, to look for those who have its slots. */
  readonly slotKey: string | null
  readonly untilMs: number | null
}

const plain = {
  name: null,
  keyPath: null,
  ofPool: false,
  limit: null,
  used: null,
  slotKey: null,
  untilMs: null,
}

/** `group` undefined: it was not looked at yet. */
export function obstacleOf(
  limits: GroupLimits,
  standing: Standing,
  group: GroupStanding | undefined,
): Obstacle {
  if (limits.paused !== null) return { ...plain, kind: limits.paused }
  // until then it is not looked at, whatever room there is
  if (group?.heldBy === 'unclaimed') return { ...plain, kind: 'unclaimed', untilMs: group.lookAtMs }
  const { used, nowMs } = standing
  const full = (slot: SlotLimit): boolean => (used.get(slot.key) ?? 0) + slot.weight > slot.most
  const slot =
    limits.slots.find(({ key }) => group?.waitsOn === lineOf('slot', key)) ??
    ((group?.waitsOn ?? null) === null ? limits.slots.find(full) : undefined)
  if (slot !== undefined) {
    const { kind, name, most: limit, key: slotKey, path: keyPath = null } = slot
    return { ...plain, kind, name, keyPath, limit, used: used.get(slotKey) ?? 0, slotKey }
  }
  for (const rate of limits.rates) {
    const tokens = tokensAt(standing.buckets.get(rate.key), rate, nowMs)
    if (tokens >= 1 && group?.waitsOn !== lineOf('rate', rate.key)) continue
    const { name, count: limit, path: keyPath = null } = rate
    const ofPool = rate.key.startsWith('pool:')
    return { ...plain, kind: 'rate', name, keyPath, ofPool, limit, untilMs: nextTokenMs(tokens, rate, nowMs) }
  }
  return { ...plain, kind: 'notice' }
}
