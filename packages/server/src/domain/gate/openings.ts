/**
 * Which runs behind the gate may start now. Pure: the caller holds the limits of the tenant against everybody
 * else, reads what is used, and writes what is decided here (postgres/gate/pass.ts).
 *
 *   1. All that are looked at come in the order of their tags, whatever their group: so groups that share a
 *      limit take turns as their tags say.
 *   2. A run opens if it fits into every limit of its group: it takes its slots, and a token of each rate.
 *   3. The first that does not fit holds its group: those behind it wait in its line, at the narrowest limit
 *      that has no room. Nobody passes by the line of a limit: who comes later, with a higher tag, lines up
 *      behind those who wait there, even where a lighter one would fit.
 *   4. At a full limit of its job, key or pool, a job that skips ends the runs that have not been tried yet;
 *      one that replaces keeps the newest, as many as the limit lets in, and names those to make room.
 *
 * Invariant: for each limit, what is used after never exceeds `most`, unless it did before (the limit was
 * lowered), and then it does not grow.
 */
import type { AtLimit } from '@belfry/contract'
import type { Bucket } from './buckets.ts'
import { fullMs, nextTokenMs, tokensAt } from './buckets.ts'
import type { GroupLimits, SlotLimit, TokenLimit } from './group-limits.ts'

export interface Head {
  readonly runId: string
  readonly tag: number
  /** Attempts begun so far. */
  readonly attempt: number
}

export interface WaitingGroup {
  readonly gate: string
  readonly limits: GroupLimits
  /** The first of those who wait, by tag; of a group that replaces the newest, by run id. */
  readonly heads: readonly Head[]
  /** Whether there are more than these. */
  readonly more: boolean
}

export interface Standing {
  readonly nowMs: number
  /** Weights of the runs that hold slots, by key of the limit; none for what is not there. */
  readonly used: ReadonlyMap<string, number>
  readonly buckets: ReadonlyMap<string, Bucket>
  /** Lowest tag of the groups that wait in the line of a limit (`lineOf`), other than these. */
  readonly lines: ReadonlyMap<string, number>
}

export interface Opening {
  readonly runId: string
  readonly gate: string
  readonly slots: readonly Pick<SlotLimit, 'key' | 'weight'>[]
}

/** Where a group stands after the look. */
export interface GroupPlace {
  readonly gate: string
  /** Undefined: nobody of it waits any more, as far as was seen. */
  readonly headTag: number | undefined
  /** The line that it waits in, `paused` for a pause; null: it is to be looked at again at once. */
  readonly waitsOn: string | null
  readonly heldBy: GroupLimits['paused']
}

/** Runs of a limit that are to make room for newer ones of the group. */
export interface Displacement {
  readonly gate: string
  readonly limitKey: string
  readonly count: number
}

export interface Decision {
  readonly openings: readonly Opening[]
  readonly places: readonly GroupPlace[]
  readonly skippedRunIds: readonly string[]
  readonly replacedRunIds: readonly string[]
  readonly displacements: readonly Displacement[]
  /** Buckets from which something was taken, or that have a line: then also when the next token is due. */
  readonly buckets: readonly (Bucket & { key: string; fullMs: number; nextMs: number | null })[]
  /**
   * Lines whose limit has room for some, by how many at most, and whose head may fit: they are to be looked
   * at.
   */
  readonly room: ReadonlyMap<string, number>
}

export const pausedLine = 'paused'
/** The line of groups that wait for a limit. */
export const lineOf = (kind: 'slot' | 'rate', key: string): string => `${kind}:${key}`

export function decideOpenings(groups: readonly WaitingGroup[], standing: Standing): Decision {
  const state = createState(standing)
  const held = new Map<string, Obstacle>()
  const opened = new Set<string>()
  const all = groups.flatMap((group) => group.heads.map((head) => ({ group, head })))
  all.sort((a, b) => a.head.tag - b.head.tag || (a.head.runId < b.head.runId ? -1 : 1))
  const openings: Opening[] = []
  for (const { limits } of groups) state.see(limits)
  for (const { group, head } of all) {
    if (held.has(group.gate)) continue
    const obstacle = state.obstacleTo(group.limits, head.tag)
    if (obstacle === undefined) {
      state.take(group.limits)
      opened.add(head.runId)
      openings.push({ runId: head.runId, gate: group.gate, slots: group.limits.slots })
    } else {
      held.set(group.gate, obstacle)
      state.lineUp(obstacle.line, head.tag)
    }
  }
  const ends = groups.map((group) => endsAtLimit(group, opened, held.get(group.gate), state))
  const ended = new Set(ends.flatMap(({ skipped, replaced }) => [...skipped, ...replaced]))
  return {
    openings,
    places: groups.map((group) => placeOf(group, opened, ended, held.get(group.gate))),
    skippedRunIds: ends.flatMap(({ skipped }) => skipped),
    replacedRunIds: ends.flatMap(({ replaced }) => replaced),
    displacements: ends.flatMap(({ displacement }) => displacement ?? []),
    buckets: state.buckets(),
    room: state.room(ended.size > 0),
  }
}

interface Obstacle {
  readonly line: string
  /** Undefined for a rate and a pause. */
  readonly slot: SlotLimit | undefined
  readonly heldBy: GroupLimits['paused']
}

function createState({ nowMs, used: usedBefore, buckets: before, lines: linesBefore }: Standing) {
  const used = new Map(usedBefore)
  const tokens = new Map<string, number>()
  const taken = new Set<string>()
  const lines = new Map(linesBefore)
  const seenSlots = new Map<string, SlotLimit>()
  const seenRates = new Map<string, TokenLimit>()
  /** Lines of which a head was looked at that does not fit: the room there is for nobody behind it. */
  const full = new Set<string>()

  const left = (rate: TokenLimit): number => {
    const known = tokens.get(rate.key) ?? tokensAt(before.get(rate.key), rate, nowMs)
    tokens.set(rate.key, known)
    seenRates.set(rate.key, rate)
    return known
  }
  const isBehind = (line: string, tag: number): boolean => (lines.get(line) ?? Infinity) < tag

  return {
    /** Also of a group of which nobody waits any more: it may have held up others. */
    see({ slots, rates }: GroupLimits): void {
      for (const slot of slots) seenSlots.set(slot.key, slot)
      for (const rate of rates) left(rate)
    },
    obstacleTo(limits: GroupLimits, tag: number): Obstacle | undefined {
      const { paused, slots, rates } = limits
      if (paused !== null) return { line: pausedLine, slot: undefined, heldBy: paused }
      for (const slot of slots) {
        const line = lineOf('slot', slot.key)
        if ((used.get(slot.key) ?? 0) + slot.weight > slot.most) full.add(line)
        if (full.has(line) || isBehind(line, tag)) return { line, slot, heldBy: null }
      }
      for (const rate of rates) {
        const line = lineOf('rate', rate.key)
        if (left(rate) < 1) full.add(line)
        if (full.has(line) || isBehind(line, tag)) return { line, slot: undefined, heldBy: null }
      }
      return undefined
    },
    take({ slots, rates }: GroupLimits): void {
      for (const { key, weight } of slots) used.set(key, (used.get(key) ?? 0) + weight)
      for (const rate of rates) {
        tokens.set(rate.key, left(rate) - 1)
        taken.add(rate.key)
      }
    },
    lineUp(line: string, tag: number): void {
      lines.set(line, Math.min(lines.get(line) ?? Infinity, tag))
    },
    used: (key: string): number => used.get(key) ?? 0,
    buckets: () => bucketsOf([...seenRates.values()], { nowMs, left, taken, lines }),
    /** `anew`: heads of lines have ended, so that who is behind them may fit. */
    room(anew: boolean): ReadonlyMap<string, number> {
      const found = [
        ...[...seenSlots.values()].map(({ key, most }) => {
          return [lineOf('slot', key), most - (used.get(key) ?? 0)] as const
        }),
        ...[...seenRates.values()].map((rate) => [lineOf('rate', rate.key), Math.floor(left(rate))] as const),
      ]
      const open = found.filter(([line, units]) => units > 0 && (anew || !full.has(line)))
      return new Map(open.filter(([line]) => (anew ? lines : linesBefore).has(line)))
    },
  }
}

interface Tokens {
  readonly nowMs: number
  readonly left: (rate: TokenLimit) => number
  readonly taken: ReadonlySet<string>
  readonly lines: ReadonlyMap<string, number>
}

function bucketsOf(rates: readonly TokenLimit[], { nowMs, left, taken, lines }: Tokens): Decision['buckets'] {
  const waitedFor = (key: string): boolean => lines.has(lineOf('rate', key))
  const changed = rates.filter(({ key }) => taken.has(key) || waitedFor(key))
  return changed.map((rate) => {
    const { key } = rate
    const tokens = left(rate)
    const nextMs = waitedFor(key) ? nextTokenMs(tokens, rate, nowMs) : null
    return { key, tokens, atMs: nowMs, fullMs: fullMs(tokens, rate, nowMs), nextMs }
  })
}

interface Ends {
  readonly skipped: readonly string[]
  readonly replaced: readonly string[]
  readonly displacement: Displacement | undefined
}

const noEnds: Ends = { skipped: [], replaced: [], displacement: undefined }
const endsRuns = (onLimit: AtLimit): boolean => onLimit === 'skip' || onLimit === 'replace'

function endsAtLimit(
  { gate, limits, heads }: WaitingGroup,
  opened: ReadonlySet<string>,
  obstacle: Obstacle | undefined,
  state: { used(key: string): number },
): Ends {
  const slot = obstacle?.slot
  if (slot === undefined || slot.kind === 'tenant' || !endsRuns(limits.onLimit)) return noEnds
  const left = heads.filter(({ runId }) => !opened.has(runId))
  if (limits.onLimit === 'skip') {
    const skipped = left.filter(({ attempt }) => attempt === 0).map(({ runId }) => runId)
    return { ...noEnds, skipped }
  }
  const places = Math.max(1, Math.floor(slot.most / slot.weight))
  const newest = left.toSorted((a, b) => (a.runId < b.runId ? 1 : -1))
  const kept = newest.slice(0, places)
  const replaced = newest.slice(places).map(({ runId }) => runId)
  const room = Math.max(0, Math.floor((slot.most - state.used(slot.key)) / slot.weight))
  const count = kept.length - room
  const displacement = count > 0 ? { gate, limitKey: slot.key, count } : undefined
  return { skipped: [], replaced, displacement }
}

/** A group of which more may be to be ended is looked at again at once. */
function placeOf(
  { gate, heads, more }: WaitingGroup,
  opened: ReadonlySet<string>,
  ended: ReadonlySet<string>,
  obstacle: Obstacle | undefined,
): GroupPlace {
  const left = heads.filter(({ runId }) => !opened.has(runId) && !ended.has(runId)).map(({ tag }) => tag)
  const first = left.length === 0 ? heads.map(({ tag }) => tag) : left
  const headTag = left.length === 0 && !more ? undefined : first.reduce((a, b) => Math.min(a, b), Infinity)
  const again = obstacle === undefined || (more && heads.some(({ runId }) => ended.has(runId)))
  const waitsOn = again || headTag === undefined ? null : obstacle.line
  return { gate, headTag, waitsOn, heldBy: waitsOn === null ? null : (obstacle?.heldBy ?? null) }
}
