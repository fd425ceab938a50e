/**
 * Work for a cluster and the wait for its end: a little load whose planned times are known, and quiet after
 * it.
 */
import { setTimeout as wait } from 'node:timers/promises'
import type { Client } from '@belfry/sdk'
import type pg from 'pg'
import type { Arena } from './arena.ts'
import type { ExpectedSchedule } from './checker.ts'
import { countAlive, findHeldByNobody } from './checker.ts'

export interface EachSecond {
  /** Name of an existing job. */
  readonly job: string
  readonly count: number
  readonly firstMs: number
  readonly seconds: number
}

/** Makes `count` schedules that fire at each second of a window, none of them skipped whatever happens. */
export async function planEachSecond(client: Client, plan: EachSecond): Promise<ExpectedSchedule[]> {
  const { job, count, firstMs, seconds } = plan
  const times = Array.from({ length: seconds }, (_, index) => firstMs + index * 1_000)
  const startAt = new Date(firstMs).toISOString()
  const endAt = new Date(firstMs + seconds * 1_000).toISOString()
  const catchUp = { policy: 'all', windowMs: 3_600_000, maxRuns: 1_000 } as const
  const names = Array.from({ length: count }, (_, index) => `each-second-${index}`)
  return Promise.all(
    names.map(async (name) => {
      const made = await client.schedules.create({
        name,
        job,
        every: '1s',
        startAt,
        endAt,
        overlap: 'allow',
        catchUp,
      })
      return { scheduleId: made.id, times }
    }),
  )
}

/** The next full second that is at least `leadMs` away. */
export function nextSecond(leadMs: number): number {
  return Math.ceil((Date.now() + leadMs) / 1_000) * 1_000
}

/**
 * Waits until every planned time was fired and every run has ended, or until `untilMs`: what is left then is
 * for the checker to tell. Answers a connection to look with, which outlives restarts of Postgres only by
 * being made again.
 */
export async function untilQuiet(arena: Pick<Arena, 'connect'>, untilMs: number): Promise<pg.Client> {
  let sql = await arena.connect()
  while (Date.now() < untilMs) {
    const work = await lookAtWork(sql).catch(async () => {
      await sql.end().catch(() => undefined)
      sql = await arena.connect().catch(() => sql)
      return undefined
    })
    const lost = work?.lost ?? []
    if (lost.length > 0) throw new Error(lost.join('\n'))
    if (work?.left === 0) break
    await wait(250)
  }
  return sql
}

async function lookAtWork(sql: pg.Client) {
  const { rowCount } = await sql.query('SELECT FROM belfry.timer LIMIT 1')
  return { left: (rowCount ?? 0) + (await countAlive(sql)), lost: await findHeldByNobody(sql) }
}
