// What chaos is let loose on: 2,000 planned times of schedules of every kind within 40 s, and faults at
// their second.
import { setTimeout as wait } from 'node:timers/promises'
import type { Client } from '@belfry/sdk'
import type { Arena } from './arena.ts'
import type { ExpectedSchedule } from './checker.ts'

export const windowMs = 40_000
export const settleMs = 90_000
/** How many requests are under way at once. */
const atOnce = 20
const shortestLeadMs = 3_000
/** Those of `plan`. */
const scheduleCount = 900 + 100 + 21 + 40

type Timing = Partial<Parameters<Client['schedules']['create']>[0]>

const iso = (ms: number): string => new Date(ms).toISOString()

/** How long this machine takes at present to make a schedule of the plan, ms; none of them stays. */
async function timeOfOne(client: Client): Promise<number> {
  const day = iso(Date.now() + 86_400_000)
  const rounds = 4
  let tookMs = 0
  for (let round = 0; round < rounds; round++) {
    const sinceMs = performance.now()
    const names = Array.from({ length: atOnce }, (_, index) => `pilot-${round}-${index}`)
    const made = await Promise.all(
      names.map((name) => client.schedules.create({ name, job: 'least', at: day })),
    )
    tookMs += performance.now() - sinceMs
    await Promise.all(made.map(({ id }) => client.schedules.delete(id)))
  }
  return tookMs / (rounds * atOnce)
}

export interface Plan {
  /** When the first one is due: after the plan was made. Epoch ms. */
  readonly firstMs: number
  readonly expected: ExpectedSchedule[]
  readonly atMostOnce: Set<string>
}

/**
 * 900 `at`, 21 × 40 `rate`, 40 × 4 cron, 100 `at` at most once: 2,000 planned times. The first one lies as
 * far ahead as the making takes, twice over: a loaded machine needs long for it.
 */
export async function plan(client: Client, target: string): Promise<Plan> {
  const handler = { kind: 'http', url: target } as const
  const retry = { maxAttempts: 10, baseMs: 200, capMs: 2_000 } as const
  await client.jobs.create({ name: 'least', handler, retry, attemptTimeoutMs: 10_000 })
  await client.jobs.create({ name: 'most', handler, delivery: 'at_most_once', attemptTimeoutMs: 10_000 })
  const leadMs = shortestLeadMs + 2 * scheduleCount * (await timeOfOne(client))
  const firstMs = Math.ceil((Date.now() + leadMs) / 10_000) * 10_000
  const bounds = { startAt: iso(firstMs), endAt: iso(firstMs + windowMs) }
  const rules = { overlap: 'allow', catchUp: { policy: 'all', windowMs: 3_600_000, maxRuns: 1_000 } } as const
  const expected: ExpectedSchedule[] = []
  const atMostOnce = new Set<string>()
  let count = 0
  const add = async (timing: Timing, job: string, times: readonly number[]): Promise<void> => {
    const name = `s-${count++}`
    const made = await client.schedules.create({ name, job, ...rules, ...timing })
    expected.push({ scheduleId: made.id, times })
    if (job === 'most') atMostOnce.add(made.id)
  }
  const at = (index: number, count: number): number => firstMs + Math.floor((index * windowMs) / count)
  const series = (stepMs: number): number[] =>
    Array.from({ length: windowMs / stepMs }, (_, k) => firstMs + k * stepMs)
  const work: (() => Promise<void>)[] = []
  for (let index = 0; index < 900; index++)
    work.push(() => add({ at: iso(at(index, 900)) }, 'least', [at(index, 900)]))
  for (let index = 0; index < 100; index++)
    work.push(() => add({ at: iso(at(index, 100)) }, 'most', [at(index, 100)]))
  for (let index = 0; index < 21; index++)
    work.push(() => add({ every: '1s', ...bounds }, 'least', series(1_000)))
  for (let index = 0; index < 40; index++) {
    work.push(() => add({ cron: '*/10 * * * * *', ...bounds }, 'least', series(10_000)))
  }
  for (let from = 0; from < work.length; from += atOnce)
    await Promise.all(work.slice(from, from + atOnce).map((each) => each()))
  if (Date.now() > firstMs) throw new Error('the plan was not in place before its first time')
  return { firstMs, expected, atMostOnce }
}

export async function killAndRestart(arena: Arena, name: string): Promise<void> {
  const node = arena.nodes.get(name)
  if (node === undefined) throw new Error(`no node ${name}`)
  node.signal('SIGKILL')
  await node.ended
  await arena.start(name)
}

/** Does each act at its second after `firstMs`. */
export async function actAt(
  firstMs: number,
  acts: readonly (readonly [second: number, act: () => unknown])[],
): Promise<void> {
  for (const [second, act] of acts) {
    await wait(Math.max(0, firstMs + second * 1_000 - Date.now()))
    await act()
  }
}
