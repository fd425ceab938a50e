/**
 * What the cluster demo asks of Belfry, and the planned times that this must lead to, by plain arithmetic:
 * two schedules, many single instants spread over the time of the demo, and a workflow every few seconds.
 */
import type { Client } from '@belfry/sdk'
import { multiples, type Planned } from '../plan.ts'

export interface ClusterPlan {
  readonly schedules: readonly Planned[]
  /** What is asked for, in words. */
  readonly words: readonly string[]
  /** Starts one more workflow run; answers its id. */
  startWorkflow(): Promise<string>
}

export const instants = 60
export const workflowPaths = ['/begin', '/left', '/right', '/join'] as const

/** Lost runs come back after a short while; a target that answers is called once. */
const retry = { maxAttempts: 5, backoff: 'fixed', baseMs: 500, jitter: 'none' } as const
/** By default only the newest of the times that were missed would run, and none beside another of its own. */
const policy = { retry, catchUp: { policy: 'all' }, overlap: 'allow' } as const
const firstInMs = 5_000

/** The instants lie within `spanMs`. */
export async function createClusterPlan(
  client: Client,
  targetUrl: string,
  nowMs: number,
  spanMs: number,
): Promise<ClusterPlan> {
  const handler = (path: string) => ({ kind: 'http', url: `${targetUrl}${path}`, method: 'POST' }) as const
  const iso = (ms: number): string => new Date(ms).toISOString()
  const startMs = Math.ceil(nowMs / 1_000) * 1_000 + firstInMs
  const everySecond = await client.schedules.create({
    name: 'every-second',
    every: '1s',
    startAt: iso(startMs),
    handler: handler('/every-second'),
    ...policy,
  })
  const cron = await client.schedules.create({
    name: 'cron',
    cron: '*/5 * * * * *',
    handler: handler('/cron'),
    ...policy,
  })
  const once = Array.from({ length: instants }, (_, index) => {
    const atMs = startMs + Math.floor((index * Math.max(1_000, spanMs - firstInMs)) / instants)
    return { atMs, name: `once-${index}` }
  })
  const singles = await Promise.all(
    once.map(async ({ atMs, name }): Promise<Planned> => {
      const made = await client.schedules.create({
        name,
        at: iso(atMs),
        handler: handler('/once'),
        ...policy,
      })
      const timesUntil = (untilMs: number) => (atMs <= untilMs ? [atMs] : [])
      return { name: 'once', words: '', scheduleId: made.id, timesUntil }
    }),
  )
  await createWorkflow(client, handler)
  return {
    schedules: [
      {
        name: 'every-second',
        words: '',
        scheduleId: everySecond.id,
        timesUntil: multiples(1_000, startMs),
      },
      {
        name: 'cron',
        words: '',
        scheduleId: cron.id,
        timesUntil: multiples(5_000, Date.parse(cron.nextAt ?? iso(startMs))),
      },
      ...singles,
    ],
    words: [
      'every-second  a rate of 1 s',
      'cron          */5 * * * * *',
      `once          ${instants} single instants, spread over the time`,
      'workflow      begin, then left and right at once, then join; a new one every 5 s',
    ],
    startWorkflow: async () => (await client.workflowRuns.create({ workflow: 'diamond' })).id,
  }
}

async function createWorkflow(client: Client, handler: (path: string) => object): Promise<void> {
  for (const path of workflowPaths) {
    const definition = { kind: 'http', url: '', method: 'POST', ...handler(path) } as const
    await client.jobs.create({ name: path.slice(1), handler: definition, retry })
  }
  await client.workflows.apply({
    name: 'diamond',
    tasks: [
      { id: 'begin', job: 'begin' },
      { id: 'left', job: 'left', needs: ['begin'] },
      { id: 'right', job: 'right', needs: ['begin'] },
      { id: 'join', job: 'join', needs: ['left', 'right'] },
    ],
  })
}
