/**
 * What the demo asks of Belfry, and the planned times that this must lead to: worked out by plain arithmetic
 * here, so that the summary compares Belfry with something that is not Belfry.
 */
import type { Client } from '@belfry/sdk'

export interface Planned {
  readonly name: string
  /** What it is, in words, for the account. */
  readonly words: string
  readonly scheduleId: string
  /** Planned times up to and including `untilMs`, epoch ms. */
  timesUntil(untilMs: number): readonly number[]
}

export interface DemoPlan {
  readonly schedules: readonly Planned[]
  /** Runs that were asked for directly. */
  readonly runs: readonly { readonly name: string; readonly words: string; readonly runId: string }[]
}

const retry = { maxAttempts: 3, backoff: 'fixed', baseMs: 1_000, jitter: 'none' } as const

/** Creates everything; the first planned time lies about three seconds ahead. */
export async function createDemoPlan(client: Client, targetUrl: string, nowMs: number): Promise<DemoPlan> {
  const handler = (path: string) => ({ kind: 'http', url: `${targetUrl}${path}`, method: 'POST' }) as const
  const atMs = Math.ceil(nowMs / 1_000) * 1_000 + 3_000
  const startMs = Math.ceil(nowMs / 5_000) * 5_000
  const iso = (ms: number): string => new Date(ms).toISOString()

  const at = await client.schedules.create({ name: 'once', at: iso(atMs), handler: handler('/once') })
  const rate = await client.schedules.create({
    name: 'every-5s',
    every: '5s',
    startAt: iso(startMs),
    handler: handler('/every'),
  })
  const cron = await client.schedules.create({
    name: 'cron',
    cron: '*/10 * * * * *',
    handler: handler('/cron'),
  })
  const flaky = await client.jobs.create({ name: 'flaky', handler: handler('/flaky'), retry })
  const onDemand = await client.jobs.create({ name: 'on-demand', handler: handler('/now') })
  const flakyRun = await client.runs.create({ job: flaky.name })
  const run = await client.runs.create({ job: onDemand.name, input: { asked: 'by the demo' } })

  return {
    schedules: [
      {
        name: at.name,
        words: `at ${iso(atMs)}`,
        scheduleId: at.id,
        timesUntil: (untilMs) => (atMs <= untilMs ? [atMs] : []),
      },
      { name: rate.name, words: 'every 5 s', scheduleId: rate.id, timesUntil: multiples(5_000, startMs) },
      {
        name: cron.name,
        words: 'cron */10 * * * * *',
        scheduleId: cron.id,
        timesUntil: multiples(10_000, Date.parse(cron.nextAt ?? iso(atMs))),
      },
    ],
    runs: [
      { name: flaky.name, words: 'on demand; the target fails twice', runId: flakyRun.id },
      { name: onDemand.name, words: 'on demand', runId: run.id },
    ],
  }
}

export function multiples(stepMs: number, firstMs: number): (untilMs: number) => number[] {
  return (untilMs) => {
    const times: number[] = []
    for (let at = firstMs; at <= untilMs; at += stepMs) times.push(at)
    return times
  }
}
