// Which runs the gate lets in, as a decision over data: examples in the Postgres tests; here what must hold
// of all, over random limits, heads and standings.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fullMs, nextTokenMs, tokensAt } from '../../packages/server/src/domain/gate/buckets.ts'
import type { GroupLimits } from '../../packages/server/src/domain/gate/group-limits.ts'
import { gateName, limitsOfGroup } from '../../packages/server/src/domain/gate/group-limits.ts'
import type { Standing, WaitingGroup } from '../../packages/server/src/domain/gate/openings.ts'
import { decideOpenings } from '../../packages/server/src/domain/gate/openings.ts'

const slotKeys = ['pool:a', 'pool:b', 'tenant']
const most = fc.record({
  'pool:a': fc.integer({ min: 0, max: 6 }),
  'pool:b': fc.integer({ min: 0, max: 6 }),
  tenant: fc.integer({ min: 1, max: 8 }),
})
const use = fc.subarray(slotKeys)
const groupPlan = fc.record({
  heads: fc.array(fc.integer({ min: 1, max: 50 }), { maxLength: 6 }),
  use,
  weight: fc.integer({ min: 1, max: 3 }),
  rated: fc.boolean(),
  onLimit: fc.constantFrom('queue', 'skip', 'replace'),
  paused: fc.constantFrom(null, null, null, 'paused_job'),
  keyMost: fc.option(fc.integer({ min: 1, max: 3 }), { nil: null }),
} as const)

const rate = { key: 'pool:r', name: 'r', count: 5, perMs: 1_000, burst: 4 }
const world = fc.record({
  most,
  plans: fc.array(groupPlan, { minLength: 1, maxLength: 6 }),
  used: fc.record({ 'pool:a': fc.nat(6), 'pool:b': fc.nat(6), tenant: fc.nat(8) }),
  tokens: fc.double({ min: 0, max: 4, noNaN: true }),
})

type World = typeof world extends fc.Arbitrary<infer Value> ? Value : never

function build({ most: limits, plans, used, tokens }: World) {
  let serial = 0
  const groups: WaitingGroup[] = plans.map((plan, index) => {
    const own =
      plan.keyMost === null
        ? []
        : [{ kind: 'key' as const, key: `key:${index}`, name: '', most: plan.keyMost, weight: 1 }]
    const shared = plan.use.map((key) => ({
      kind: key === 'tenant' ? ('tenant' as const) : ('pool' as const),
      key,
      name: key,
      most: limits[key as keyof typeof limits],
      weight: key === 'tenant' ? 1 : plan.weight,
    }))
    const its: GroupLimits = {
      paused: plan.paused,
      slots: [...own, ...shared],
      rates: plan.rated ? [rate] : [],
      onLimit: plan.onLimit,
    }
    const heads = plan.heads
      .map((tag) => ({
        runId: `run-${String(serial++).padStart(4, '0')}`,
        tag,
        attempt: serial % 3 === 0 ? 1 : 0,
      }))
      .toSorted((a, b) => a.tag - b.tag || (a.runId < b.runId ? -1 : 1))
    return { gate: `g${index}`, limits: its, heads, more: false }
  })
  const standing: Standing = {
    nowMs: 1_000,
    used: new Map(Object.entries(used)),
    buckets: new Map([[rate.key, { tokens, atMs: 1_000 }]]),
    lines: new Map(),
  }
  return { groups, standing }
}

describe('a decision', () => {
  it('never goes over a limit, and takes a whole token for each start', () => {
    fc.assert(
      fc.property(world, (given) => {
        const { groups, standing } = build(given)
        const { openings } = decideOpenings(groups, standing)
        const used = new Map(standing.used)
        for (const { slots } of openings)
          for (const { key, weight } of slots) used.set(key, (used.get(key) ?? 0) + weight)
        for (const { limits } of groups) {
          for (const { key, most: limit } of limits.slots) {
            const before = standing.used.get(key) ?? 0
            expect(used.get(key) ?? 0).toBeLessThanOrEqual(Math.max(limit, before))
          }
        }
        const byGate = new Map(groups.map((group) => [group.gate, group]))
        const rated = openings.filter(({ gate }) => byGate.get(gate)?.limits.rates.length === 1)
        expect(rated.length).toBeLessThanOrEqual(Math.floor(given.tokens))
      }),
      { numRuns: 2_000 },
    )
  })

  it('opens each group in the order of its tags, and nothing of one that is paused', () => {
    fc.assert(
      fc.property(world, (given) => {
        const { groups, standing } = build(given)
        const { openings } = decideOpenings(groups, standing)
        for (const { gate, heads, limits } of groups) {
          const opened = openings.filter((opening) => opening.gate === gate).map(({ runId }) => runId)
          expect(opened).toEqual(heads.slice(0, opened.length).map(({ runId }) => runId))
          expect(limits.paused !== null && opened.length > 0).toBe(false)
        }
      }),
      { numRuns: 2_000 },
    )
  })

  it('leaves nobody behind whom every limit would let in, unless one before it waits there', () => {
    expect.hasAssertions()
    fc.assert(
      fc.property(world, (given) => {
        const { groups, standing } = build(given)
        const { openings, places, room } = decideOpenings(groups, standing)
        const used = new Map(standing.used)
        for (const { slots } of openings)
          for (const { key, weight } of slots) used.set(key, (used.get(key) ?? 0) + weight)
        for (const place of places) {
          const line = place.waitsOn
          if (line === null || !line.startsWith('slot:')) continue
          const group = groups.find(({ gate }) => gate === place.gate)
          const slot = group?.limits.slots.find(({ key }) => line === `slot:${key}`)
          if (slot === undefined) throw new Error(`${place.gate} waits in a line that is not of its limits`)
          const fits = (used.get(slot.key) ?? 0) + slot.weight <= slot.most
          const before = places.some(
            (other) =>
              other.waitsOn === line && (other.headTag ?? 0) <= (place.headTag ?? 0) && other !== place,
          )
          // or the line is looked at again at once
          expect(fits && !room.has(line) && !before, `${place.gate} waits in ${line} for nothing`).toBe(false)
        }
      }),
      { numRuns: 2_000 },
    )
  })

  it('ends runs only of jobs that say so: no retry by skip, and not the newest by replace', () => {
    fc.assert(
      fc.property(world, (given) => {
        const { groups, standing } = build(given)
        const { openings, skippedRunIds, replacedRunIds } = decideOpenings(groups, standing)
        const opened = new Set(openings.map(({ runId }) => runId))
        for (const { heads, limits } of groups) {
          const left = heads.filter(({ runId }) => !opened.has(runId))
          const skipped = left.filter(({ runId }) => skippedRunIds.includes(runId))
          const replaced = left.filter(({ runId }) => replacedRunIds.includes(runId))
          expect(limits.onLimit !== 'skip' && skipped.length > 0).toBe(false)
          expect(limits.onLimit !== 'replace' && replaced.length > 0).toBe(false)
          expect(skipped.filter(({ attempt }) => attempt > 0)).toEqual([])
          const newest = left
            .map(({ runId }) => runId)
            .toSorted()
            .at(-1)
          expect(replaced.map(({ runId }) => runId)).not.toContain(newest)
        }
        for (const id of [...skippedRunIds, ...replacedRunIds]) expect(opened.has(id)).toBe(false)
      }),
      { numRuns: 2_000 },
    )
  })
})

describe('a bucket', () => {
  it('never holds more than its burst, and gives a whole token when it said so', () => {
    const arbitrary = fc.record({
      count: fc.integer({ min: 1, max: 1_000 }),
      perMs: fc.integer({ min: 1_000, max: 86_400_000 }),
      burst: fc.integer({ min: 1, max: 1_000 }),
      share: fc.double({ min: 0, max: 1, noNaN: true }),
      laterMs: fc.nat(1_000_000),
    })
    fc.assert(
      fc.property(arbitrary, ({ count, perMs, burst, share, laterMs }) => {
        const limit = { count, perMs, burst }
        const bucket = { tokens: share * burst, atMs: 5_000 }
        expect(tokensAt(bucket, limit, 5_000 + laterMs)).toBeLessThanOrEqual(burst)
        expect(tokensAt(bucket, limit, 0)).toBe(bucket.tokens)
        const nextMs = nextTokenMs(bucket.tokens, limit, 5_000)
        expect(tokensAt(bucket, limit, nextMs)).toBeGreaterThanOrEqual(1 - 1e-9)
        expect(tokensAt(bucket, limit, fullMs(bucket.tokens, limit, 5_000))).toBeCloseTo(burst, 6)
      }),
    )
    expect(tokensAt(undefined, { count: 1, perMs: 1_000, burst: 7 }, 0)).toBe(7)
  })
})

describe('the limits of a group', () => {
  const job = {
    id: 'j',
    name: 'sync',
    concurrency: {
      limit: 5,
      key: 'k',
      keyLimit: 2,
      pools: [
        { name: 'db', weight: 9 },
        { name: 'gone', weight: 1 },
      ],
      onLimit: 'queue' as const,
    },
    rateLimit: { count: 1, perMs: 1_000, burst: null, key: 'k' },
    targetHost: 'api.example.com',
    paused: false,
  }
  const tenant = {
    runLimit: 7,
    pools: [
      { id: 'p', name: 'db', slots: 4, rate: null, host: null },
      {
        id: 'h',
        name: 'host',
        slots: null,
        rate: { count: 3, perMs: 1_000, burst: 6 },
        host: 'api.example.com',
      },
    ],
    pausedQueues: new Set(['mail']),
  }

  it('come from the job, its pools, those of its host, and the tenant, the narrowest first', () => {
    const limits = limitsOfGroup(gateName('j/aa/bb/default'), job, tenant)
    expect(limits.slots.map(({ key, most: limit, weight }) => [key, limit, weight])).toEqual([
      ['key:j:aa', 2, 1],
      ['job:j', 5, 1],
      // one that is heavier than its pool takes all of it
      ['pool:p', 4, 4],
      ['tenant', 7, 1],
    ])
    expect(limits.rates.map(({ key, count, burst }) => [key, count, burst])).toEqual([
      ['key:j:bb', 1, 1],
      ['pool:h', 3, 6],
    ])
    expect(limits.paused).toBeNull()
  })

  it('tell a pause of the queue, and of the job before it', () => {
    expect(limitsOfGroup(gateName('j///mail'), job, tenant).paused).toBe('paused_queue')
    expect(limitsOfGroup(gateName('j///mail'), { ...job, paused: true }, tenant).paused).toBe('paused_job')
  })
})
