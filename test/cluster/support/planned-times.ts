// What chaos is let loose on: 2,000 planned times of schedules of every kind within 40 s, and faults at
// their second.
import { setTimeout as wait } from 'node:timers/promises'
import type { Client } from '@belfry/sdk'
import type { Arena } from './arena.ts'
import type { ExpectedSchedule } from './checker.ts'

export const windowMs = 40_000
export const settleMs = 90_000
const leadMs = 15_000

/** When the first one is due: late enough for the plan to be made. Epoch ms. */
export const firstTime = (): number => Math.ceil((Date.now() + leadMs) / 10_000) * 10_000

type Timing = Partial<Parameters<Client['schedules']['create']>[0]>

/** 900 `at`, 21 × 40 `rate`, 40 × 4 cron, 100 `at` at most once: 2,000 planned times. */
export async function plan(
  client: Client,
  target: string,
  firstMs: number,
): Promise<{
  expected: ExpectedSchedule[]
  atMostOnce: Set<string>
}> {
  const iso = (ms: number): string => new Date(ms).toISOString()
  const handler = { kind: 'http', url: target } as const
  const bounds = { startAt: iso(firstMs), endAt: iso(firstMs + windowMs) }
  const rules = { overlap: 'allow', catchUp: { policy: 'all', windowMs: 3_600_000, maxRuns: 1_000 } } as const
  const retry = { maxAttempts: 10, baseMs: 200, capMs: 2_000 } as const
  await client.jobs.create({ name: 'least', handler, retry, attemptTimeoutMs: 10_000 })
  await client.jobs.create({ name: 'most', handler, delivery: 'at_most_once', attemptTimeoutMs: 10_000 })
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
  for (let from = 0; from < work.length; from += 20)
    await Promise.all(work.slice(from, from + 20).map((each) => each()))
  return { expected, atMostOnce }
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
