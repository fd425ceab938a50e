// Runs that wait for other runs: let go exactly once, whatever the order of the ends, and whatever happens
// between any two statements of the round that looks at them.
import type { TriggerRule } from '@belfry/contract'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { judgeDependencies } from '../../packages/server/src/domain/dependencies.ts'
import {
  type DependencyRig,
  openDependencyRig,
  steppedBy,
  stoppedBefore,
  type UnderWay,
} from '../support/dependency-rig.ts'

let rig: DependencyRig
beforeAll(async () => {
  rig = await openDependencyRig()
})
afterAll(() => rig.close())

const one = async (count = 1): Promise<[string, ...string[]]> => {
  const [first, ...rest] = await rig.parents(count)
  if (first === undefined) throw new Error('no run')
  return [first, ...rest]
}

describe('a run that depends on others', () => {
  it('waits until all have ended, and is let go once', async () => {
    const [a, b = ''] = await one(2)
    const child = await rig.child([a, b])
    await rig.resolver.runOnce()
    expect(await rig.standing(child)).toBe('waits')
    await rig.move(a, 'succeed')
    await rig.resolver.runOnce()
    expect(await rig.standing(child)).toBe('waits')
    await rig.move(b, 'succeed')
    expect(await rig.resolver.runOnce()).toBe(1)
    expect(await rig.standing(child)).toBe('free')
    expect(await rig.resolver.runOnce()).toBe(0)
    expect(await rig.leftovers()).toEqual([])
  })

  it('is let go by what ended before it was asked for', async () => {
    const [a] = await one()
    await rig.move(a, 'succeed')
    const child = await rig.child([a])
    expect(await rig.resolver.runOnce()).toBe(1)
    expect(await rig.standing(child)).toBe('free')
  })

  it('ends as upstream_failed or skipped with a reason, and so do those behind it', async () => {
    const [a] = await one()
    const child = await rig.child([a])
    const grandchild = await rig.child([child])
    const mender = await rig.child([child], 'one_failed')
    const other = await rig.child([a], 'all_failed')
    await rig.resolver.runOnce()
    await rig.move(a, 'fail')
    await rig.resolver.runOnce()
    expect(await rig.standing(child)).toBe('upstream_failed/dependency_failed')
    expect(await rig.standing(grandchild)).toBe('upstream_failed/dependency_failed')
    expect(await rig.standing(mender)).toBe('free')
    expect(await rig.standing(other)).toBe('free')
    const [b] = await one()
    const unwanted = await rig.child([b], 'all_failed')
    await rig.move(b, 'succeed')
    await rig.resolver.runOnce()
    expect(await rig.standing(unwanted)).toBe('skipped/dependency_skipped')
    expect((await rig.fixture.attempts(unwanted))[0]).toMatchObject({
      number: 0,
      outcome: 'skipped',
      error_message: 'Of the runs that it depends on 1 succeeded; the rule all_failed does not hold.',
    })
  })

  it('a retry of what it waits for is no end', async () => {
    const [a] = await one()
    const child = await rig.child([a])
    await rig.resolver.runOnce()
    await rig.move(a, 'retry')
    await rig.resolver.runOnce()
    expect(await rig.standing(child)).toBe('waits')
    await rig.release(a)
    await rig.move(a, 'succeed')
    await rig.resolver.runOnce()
    expect(await rig.standing(child)).toBe('free')
  })

  it('what was never told is found by the look at all that wait', async () => {
    const [a] = await one()
    const child = await rig.child([a])
    await rig.resolver.runOnce()
    await rig.move(a, 'succeed')
    await rig.fixture.database.sql('DELETE FROM belfry.dependency_event')
    await rig.resolver.runOnce()
    expect(await rig.standing(child)).toBe('waits')
    await rig.fixture.database.sql(
      `INSERT INTO belfry.dependency_event (child_id, tenant_id) SELECT run_id, tenant_id FROM belfry.delayed
       WHERE depends_rule IS NOT NULL`,
    )
    await rig.resolver.runOnce()
    expect(await rig.standing(child)).toBe('free')
  })

  it('counts one whose record is gone as failed', async () => {
    const [a] = await one()
    const child = await rig.child([a], 'all_done')
    const strict = await rig.child([a])
    await rig.move(a, 'succeed')
    await rig.fixture.database.sql('DELETE FROM belfry.attempt WHERE run_id = $1', [a])
    await rig.fixture.database.sql('DELETE FROM belfry.run WHERE id = $1', [a])
    await rig.resolver.runOnce()
    expect(await rig.standing(child)).toBe('free')
    expect(await rig.standing(strict)).toBe('upstream_failed/dependency_failed')
  })
})

describe('whatever comes between two statements of a round', () => {
  const statements = [0, 1, 2, 3, 4, 5]
  const moves = ['succeed', 'fail', 'retry', 'retry and back', 'retry, back and succeed'] as const
  it.each(statements.flatMap((at) => moves.map((move) => [at, move] as const)))(
    'before statement %i: %s',
    async (at, move) => {
      const [a] = await one()
      const child = await rig.child([a], 'all_done')
      let under: Promise<void> = Promise.resolve()
      async function act(): Promise<void> {
        if (move === 'succeed' || move === 'fail') return rig.move(a, move)
        await rig.move(a, 'retry')
        if (move === 'retry') return
        await rig.release(a)
        if (move === 'retry, back and succeed') await rig.move(a, 'succeed')
      }
      // what it does may wait for the round, which must not wait for it then
      const between = async (): Promise<void> => {
        under = act()
        await Promise.race([under, waited()])
      }
      const waited = async (): Promise<void> => {
        for (;;) {
          if ((await rig.fixture.database.waiting()) > 0) return
          await new Promise((resolve) => setImmediate(resolve))
        }
      }
      await rig.resolverOn(stoppedBefore(rig.db, at, between)).runOnce()
      await under
      await rig.resolver.runOnce()
      const [ended] = await rig.fixture.database.sql(
        'SELECT 1 FROM belfry.attempt WHERE run_id = $1 AND run_state IS NOT NULL',
        [a],
      )
      const waits = (await rig.standing(child)) === 'waits'
      expect(waits).toBe(ended === undefined)
      if (waits) {
        if (move === 'retry') await rig.release(a)
        await rig.move(a, 'succeed')
        await rig.resolver.runOnce()
      }
      expect(await rig.standing(child)).toBe('free')
      expect(await rig.leftovers()).toEqual([])
    },
  )

  it('many children of many parents, two resolvers, ends in any order: each is let go once', async () => {
    const parents = await rig.parents(40)
    const children: string[] = []
    for (let n = 0; n < 30; n++)
      children.push(await rig.child(parents.slice(n % 10, (n % 10) + 30), 'all_done'))
    const resolvers = [rig.resolver, rig.resolverOn(rig.db)]
    let released = 0
    const rounds = async (): Promise<void> => {
      for (const count of await Promise.all(resolvers.map((each) => each.runOnce()))) released += count
    }
    await rounds()
    const order = parents.toSorted(() => Math.random() - 0.5)
    for (let n = 0; n < order.length; n += 4)
      await Promise.all([...order.slice(n, n + 4).map((id) => rig.move(id, 'succeed')), rounds()])
    await rounds()
    await rounds()
    expect(released).toBe(children.length)
    expect(new Set(await Promise.all(children.map(rig.standing)))).toEqual(new Set(['free']))
    expect(await rig.leftovers()).toEqual([])
  })
})

describe('whatever is under way while a round looks, and commits before, in or after it', () => {
  // before the child is stored, before a statement of its round, and for the commit: after the round
  const begins = [-1, 0, 1, 2, 3, 4, 5]
  const after = 6
  const moves = ['succeed', 'fail', 'retry', 'cancel', 'release'] as const
  const spans = begins.flatMap((begin) =>
    [...begins, after].filter((end) => end > begin).map((end) => [begin, end] as const),
  )

  async function tryOne(followed: boolean, move: (typeof moves)[number], begin: number, end: number) {
    const [a] = await one()
    const children = followed ? [await rig.child([a], 'all_done')] : []
    await rig.resolver.runOnce()
    if (move === 'cancel' || move === 'release') await rig.move(a, 'retry')
    let under: UnderWay | undefined
    // neither waits for the round, which may be what it waits for
    const step = async (at: number): Promise<void> => {
      if (at === begin && under === undefined) {
        under = rig.moveSlowly(a, move)
        await overOrWaits(Promise.race([under.stored, under.done]))
      }
      if (at !== end || under === undefined) return
      under.commit()
      await overOrWaits(under.done)
    }
    await step(-1)
    children.push(await rig.child([a], 'all_done'))
    const round = rig.resolverOn(steppedBy(rig.db, step)).runOnce()
    // a round that waits for its commit lets it come
    await overOrWaits(round)
    under?.commit()
    await round
    under?.commit()
    await under?.done
    await rig.resolver.runOnce()
    const ended = under !== undefined && ['succeed', 'fail', 'cancel'].includes(move)
    const wanted = children.map(() => (ended ? 'free' : 'waits'))
    const standing = await Promise.all(children.map(rig.standing))
    if (!ended) {
      if ((await rig.fixture.place(a)).place === 'delayed') await rig.release(a)
      await rig.move(a, 'succeed')
      await rig.resolver.runOnce()
    }
    return { standing, wanted, last: await Promise.all(children.map(rig.standing)) }
  }

  /** Resolves when this has settled, or some transaction waits for another. */
  async function overOrWaits(work: Promise<unknown>): Promise<void> {
    let over = false
    const settled = (): void => void (over = true)
    work.then(settled, settled)
    while (!over && (await rig.fixture.database.waiting()) === 0)
      await new Promise((resolve) => setTimeout(resolve, 1))
  }

  it.each(
    [true, false].flatMap((followed) =>
      moves.flatMap((move) =>
        spans
          .filter(([begin]) => followed || begin < 0)
          .map(([begin, end]) => ({ followed, move, begin, end })),
      ),
    ),
  )('followed before: $followed, $move, from $begin to $end', async ({ followed, move, begin, end }) => {
    const { standing, wanted, last } = await tryOne(followed, move, begin, end)
    expect(standing).toEqual(wanted)
    expect(new Set(last)).toEqual(new Set(['free']))
    expect(await rig.leftovers()).toEqual([])
  })
})

describe('a run that cannot be let go', () => {
  it('is put off and told of; those that came with it go on, and it too when its cause is gone', async () => {
    const [a] = await one()
    const children: string[] = []
    for (let n = 0; n < 9; n++) children.push(await rig.child([a], 'all_done'))
    await rig.resolver.runOnce()
    const bad = [children[0] ?? '', children[5] ?? '']
    const { sql } = rig.fixture.database
    await sql(
      `CREATE FUNCTION belfry.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
       BEGIN RAISE EXCEPTION 'this row is broken'; END $$`,
    )
    await sql(
      `CREATE TRIGGER refuse BEFORE UPDATE ON belfry.delayed FOR EACH ROW
       WHEN (old.run_id IN ('${bad.join("', '")}')) EXECUTE FUNCTION belfry.refuse()`,
    )
    await rig.move(a, 'succeed')
    expect(await rig.resolver.runOnce()).toBe(7)
    const good = children.filter((id) => !bad.includes(id))
    expect(new Set(await Promise.all(good.map(rig.standing)))).toEqual(new Set(['free']))
    const told = rig.events.of('role_failed')
    expect(told.map(({ role, retryInMs }) => [role, retryInMs])).toEqual([
      ['dependency_resolver', 60_000],
      ['dependency_resolver', 60_000],
    ])
    const words = told.map(({ error }) => String(error)).join('\n')
    for (const id of bad) expect(words).toMatch(new RegExp(`${id}.*this row is broken.*cancel it`))
    // nobody looks at them meanwhile
    expect(await rig.resolver.runOnce()).toBe(0)
    expect(rig.events.of('role_failed')).toHaveLength(2)
    expect((await rig.leftovers()).length).toBe(2)
    await sql('DROP TRIGGER refuse ON belfry.delayed')
    await sql('DROP FUNCTION belfry.refuse')
    await sql("UPDATE belfry.dependency_event SET at = at - interval '1 minute'")
    expect(await rig.resolver.runOnce()).toBe(2)
    expect(await Promise.all(bad.map(rig.standing))).toEqual(['free', 'free'])
  })
})

it('the verdict on the whole is the same in every order, and never comes too early', () => {
  const states = ['succeeded', 'failed', 'canceled', 'skipped', 'upstream_failed'] as const
  const rules: TriggerRule[] = ['all_succeeded', 'none_failed', 'all_done', 'none_skipped', 'all_failed']
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(...states), { minLength: 1, maxLength: 6 }),
      fc.constantFrom(...rules),
      fc.integer({ min: 0, max: 5 }),
      (ended, rule, open) => {
        const counted = (list: readonly (typeof states)[number][], waiting: number) => {
          const counts = new Map<(typeof states)[number] | null, number>(waiting > 0 ? [[null, waiting]] : [])
          for (const state of list) counts.set(state, (counts.get(state) ?? 0) + 1)
          return judgeDependencies(rule, counts).kind
        }
        expect(counted(ended.toReversed(), 0)).toBe(counted(ended, 0))
        expect(counted(ended, open) === 'wait').toBe(open > 0)
      },
    ),
  )
})
