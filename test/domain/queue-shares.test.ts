// How slots are spread over queues: evenly over a list; over tenants, whatever they name their queues, for a
// worker of every queue. Queues are simulated: each holds the tenants of its runs in the order of their tags.
import { describe, expect, test } from 'vitest'
import { createQueueShares, type QueueShares } from '../../packages/server/src/engine/queue-shares.ts'

type Supply = Map<string, string[]>

const fill = (supply: Supply, queue: string, tenantIds: readonly string[]): void =>
  void supply.set(queue, [...(supply.get(queue) ?? []), ...tenantIds])

/** `count` runs of a tenant. */
const of = (tenantId: string, count: number): string[] => Array.from({ length: count }, () => tenantId)

/** As a look at the database: who has something where. */
function tell(
  shares: QueueShares,
  supply: Supply,
  nowMs: number,
  weights: Record<string, number> = {},
): void {
  for (const [queue, tenantIds] of supply) {
    const found = [...new Set(tenantIds)].map((tenantId) => ({
      queue,
      tenantId,
      weight: weights[tenantId] ?? 1,
    }))
    shares.found(found, nowMs)
  }
}

/** One claim; answers the tenants of what it took, or undefined when there was nothing to ask. */
function claim(shares: QueueShares, supply: Supply, free: number, nowMs: number): string[] | undefined {
  const asked = shares.spread(free, nowMs)
  if (asked.length === 0) return undefined
  return asked.flatMap((share) => {
    const taken = (supply.get(share.queue) ?? []).splice(0, share.limit)
    shares.gave(share, taken, nowMs)
    return taken
  })
}

/** Claims until the slots are full or nothing gives any more, as the intake does. */
function pass(shares: QueueShares, supply: Supply, free: number, nowMs: number): string[] {
  shares.beginPass()
  const all: string[] = []
  for (;;) {
    const taken = claim(shares, supply, free - all.length, nowMs)
    if (taken === undefined) return all
    all.push(...taken)
  }
}

const countOf = (taken: readonly string[], tenantId: string): number =>
  taken.filter((each) => each === tenantId).length

describe('a worker of every queue', () => {
  test('gives a tenant with one queue as much as one with 10,000', () => {
    const supply: Supply = new Map()
    for (let n = 0; n < 10_000; n++) fill(supply, `flood-${n}`, of('flood', 5))
    fill(supply, 'one', of('one', 5_000))
    const shares = createQueueShares('*')
    tell(shares, supply, 0)
    expect(countOf(pass(shares, supply, 50, 0), 'one')).toBe(25)
    // one slot at a time, as in a worker that is full
    const taken = Array.from({ length: 200 }, () => pass(shares, supply, 1, 0)).flat()
    expect(countOf(taken, 'one')).toBe(100)
  })

  test('starts whoever comes new first, and only with what is fair', () => {
    const supply: Supply = new Map([['flood', of('flood', 10_000)]])
    const shares = createQueueShares('*')
    tell(shares, supply, 0)
    for (let n = 0; n < 100; n++) pass(shares, supply, 10, 0)
    fill(supply, 'new', of('new', 1_000))
    tell(shares, supply, 1)
    expect(pass(shares, supply, 2, 1)).toContain('new')
    const taken = Array.from({ length: 100 }, () => pass(shares, supply, 1, 1)).flat()
    expect(Math.abs(countOf(taken, 'new') - 50)).toBeLessThanOrEqual(1)
  })

  test('gives by weight', () => {
    const supply: Supply = new Map([
      ['a', of('light', 1_000)],
      ['b', of('heavy', 1_000)],
    ])
    const shares = createQueueShares('*')
    tell(shares, supply, 0, { heavy: 3 })
    const taken = Array.from({ length: 100 }, () => pass(shares, supply, 4, 0)).flat()
    expect(Math.abs(countOf(taken, 'heavy') - 300)).toBeLessThanOrEqual(3)
  })

  test('gives a tenant with 500 queues of its own at most a quarter more than those who share one', () => {
    const tenants = Array.from({ length: 20 }, (_, n) => `t${n}`)
    const supply: Supply = new Map()
    // in the shared queue all take turns, the flood among them
    for (let n = 0; n < 500; n++) fill(supply, 'shared', [...tenants, 'flood'])
    for (let n = 0; n < 500; n++) fill(supply, `flood-${n}`, of('flood', 100))
    const shares = createQueueShares('*')
    tell(shares, supply, 0)
    const taken = Array.from({ length: 2_100 }, () => pass(shares, supply, 1, 0)).flat()
    const fair = 2_100 / 21
    expect(countOf(taken, 'flood')).toBeLessThanOrEqual(fair * 1.3)
    for (const tenant of tenants) expect(countOf(taken, tenant)).toBeGreaterThanOrEqual(fair * 0.9)
  })

  test('a tenant that waits long in a shared queue does not keep others out meanwhile', () => {
    const supply: Supply = new Map([
      ['shared', [...of('first', 500), 'stuck']],
      ['own', of('own', 500)],
    ])
    const shares = createQueueShares('*')
    tell(shares, supply, 0)
    const taken = Array.from({ length: 300 }, () => pass(shares, supply, 1, 0)).flat()
    expect(countOf(taken, 'own')).toBeGreaterThanOrEqual(55)
  })

  test('who was there before does not lend its turns to who is there now', () => {
    const tenants = Array.from({ length: 20 }, (_, n) => `t${n}`)
    const supply: Supply = new Map([['shared', [...tenants]]])
    const shares = createQueueShares('*')
    tell(shares, supply, 0)
    expect(pass(shares, supply, 20, 0)).toHaveLength(20)
    fill(supply, 'shared', of('flood', 10_000))
    fill(supply, 'own', of('own', 10_000))
    for (let nowMs = 5_000; nowMs <= 20_000; nowMs += 5_000) tell(shares, supply, nowMs)
    const taken = Array.from({ length: 100 }, () => pass(shares, supply, 1, 20_000)).flat()
    expect(Math.abs(countOf(taken, 'own') - 50)).toBeLessThanOrEqual(2)
  })

  test('a queue that was hinted is asked at once, but hints buy no more than one share', () => {
    const supply: Supply = new Map([['good', of('good', 5_000)]])
    const shares = createQueueShares('*')
    tell(shares, supply, 0)
    for (let n = 0; n < 10_000; n++) {
      fill(supply, `flood-${n}`, of('flood', 1))
      shares.heard(`flood-${n}`, 0)
    }
    expect(countOf(pass(shares, supply, 10, 0), 'flood')).toBeGreaterThan(0)
    const taken = Array.from({ length: 400 }, (_, n) => {
      // each run that was taken is followed by one in a new queue
      fill(supply, `more-${n}`, of('flood', 1))
      shares.heard(`more-${n}`, 0)
      return pass(shares, supply, 1, 0)
    }).flat()
    expect(countOf(taken, 'good')).toBeGreaterThanOrEqual(195)
  })

  test('every hint counts, also of a queue that just gave nothing because another worker was first', () => {
    const shares = createQueueShares('*')
    for (let nowMs = 0; nowMs < 30_000; nowMs += 300) {
      shares.beginPass()
      shares.heard('q', nowMs)
      expect(shares.spread(5, nowMs)).toEqual([{ queue: 'q', limit: 5 }])
      shares.gave({ queue: 'q', limit: 5 }, nowMs % 900 === 0 ? ['t'] : [], nowMs)
    }
  })

  test('what one queue does not use goes to the others, in the same pass', () => {
    const supply: Supply = new Map([
      ['a', of('a', 3)],
      ['b', of('b', 100)],
      ['c', of('c', 100)],
    ])
    const shares = createQueueShares('*')
    tell(shares, supply, 0)
    const taken = pass(shares, supply, 50, 0)
    expect(taken).toHaveLength(50)
    expect(countOf(taken, 'a')).toBe(3)
    expect(Math.abs(countOf(taken, 'b') - countOf(taken, 'c'))).toBeLessThanOrEqual(1)
  })

  test('a tenant of many queues comes to all of them', () => {
    const supply: Supply = new Map()
    for (let n = 0; n < 1_000; n++) fill(supply, `q${n}`, of('t', 2))
    const shares = createQueueShares('*')
    tell(shares, supply, 0)
    for (let n = 0; n < 100; n++) pass(shares, supply, 10, 0)
    expect([...supply.values()].map((left) => left.length)).toEqual(Array(1_000).fill(1))
  })

  test('forgets a queue that gave nothing for a second, until it is heard of', () => {
    const supply: Supply = new Map([['q', of('t', 1)]])
    const shares = createQueueShares('*')
    tell(shares, supply, 0)
    expect(pass(shares, supply, 5, 0)).toHaveLength(1)
    shares.beginPass()
    expect(shares.spread(5, 999)).toHaveLength(1)
    pass(shares, supply, 5, 1_000)
    shares.beginPass()
    expect(shares.spread(5, 1_001)).toEqual([])
    shares.heard('q', 1_002)
    expect(shares.spread(5, 1_002)).toEqual([{ queue: 'q', limit: 5 }])
  })

  test('asks nothing when no slot is free, or more are taken than there are', () => {
    const shares = createQueueShares('*')
    tell(shares, new Map([['q', of('t', 1)]]), 0)
    expect(shares.spread(0, 0)).toEqual([])
    expect(shares.spread(-3, 0)).toEqual([])
  })

  test('never asks for more than 64 queues, nor for more than what is free', () => {
    const supply: Supply = new Map()
    for (let n = 0; n < 300; n++) fill(supply, `q${n}`, of(`t${n % 150}`, 1))
    const shares = createQueueShares('*')
    tell(shares, supply, 0)
    for (const free of [1, 10, 64, 500]) {
      const spread = shares.spread(free, 0)
      expect(spread.length).toBeLessThanOrEqual(64)
      expect(spread.reduce((sum, share) => sum + share.limit, 0)).toBe(free)
    }
  })
})

describe('a worker with a list', () => {
  test('asks for all, evenly', () => {
    expect(createQueueShares(['a', 'b', 'c']).spread(8, 0)).toEqual([
      { queue: 'a', limit: 3 },
      { queue: 'b', limit: 3 },
      { queue: 'c', limit: 2 },
    ])
  })

  test('comes to every queue in as few claims as there are windows of 64', () => {
    const names = Array.from({ length: 1_000 }, (_, n) => `q${n}`)
    const shares = createQueueShares(names)
    const seen = Array.from({ length: 16 }, () => shares.spread(100, 0).map((share) => share.queue)).flat()
    expect(new Set(seen).size).toBe(1_000)
  })

  test('asks a queue that gave less no second time in a pass', () => {
    const shares = createQueueShares(['a', 'b'])
    shares.gave({ queue: 'a', limit: 2 }, ['t'], 0)
    expect(shares.spread(3, 0)).toEqual([{ queue: 'b', limit: 3 }])
    shares.gave({ queue: 'b', limit: 3 }, [], 0)
    expect(shares.spread(3, 0)).toEqual([])
    shares.beginPass()
    expect(shares.spread(2, 0)).toHaveLength(2)
  })

  test('asks nothing when more slots are taken than there are', () => {
    expect(createQueueShares(['a', 'b']).spread(-1, 0)).toEqual([])
  })
})
