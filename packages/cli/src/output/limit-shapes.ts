/**
 * How limits look to people: pools, queues, what runs next in one and what holds the rest, and the limits of
 * a job.
 */
import type { HeldGroup, Job, Pool, Queue, QueuedRun, QueueSummary, Rate } from '@belfry/contract'
import { maxCounted } from '@belfry/contract'
import type { Shape } from './printer.ts'
import { durationWords, timeWithDistance } from './times.ts'

const count = (number: number): string => (number >= maxCounted ? `${maxCounted}+` : String(number))

export const rateWords = (rate: Rate | null): string =>
  rate === null
    ? '-'
    : `${rate.count} in ${durationWords(rate.perMs)}${rate.burst === null ? '' : `, ${rate.burst} at once`}`

export const poolShape: Shape<Pool> = {
  name: (pool) => pool.name,
  columns: [
    { title: 'NAME', cell: (pool) => pool.name, flexible: true },
    { title: 'SLOTS', cell: (pool) => (pool.slots === null ? '-' : String(pool.slots)), align: 'right' },
    { title: 'USED', cell: (pool) => String(pool.used), align: 'right' },
    { title: 'WAITING', cell: (pool) => String(pool.waiting), align: 'right' },
    { title: 'RATE', cell: (pool) => rateWords(pool.rate) },
    { title: 'HOST', cell: (pool) => pool.host ?? '-', flexible: true },
  ],
  fields: (pool, clock) => [
    ['Name', pool.name],
    ['Id', pool.id],
    ['Slots', pool.slots === null ? 'no limit' : `${pool.used} of ${pool.slots} taken`],
    ['Rate', pool.rate === null ? 'no limit' : rateWords(pool.rate)],
    ['Host', pool.host ?? '-'],
    ['Waiting', `${pool.waiting} groups of runs`],
    ['Version', String(pool.version)],
    ['Changed', timeWithDistance(pool.updatedAt, clock)],
  ],
}

export const queueSummaryShape: Shape<QueueSummary> = {
  name: (queue) => queue.name,
  columns: [
    { title: 'QUEUE', cell: (queue) => queue.name, flexible: true },
    { title: 'READY', cell: (queue) => count(queue.ready), align: 'right' },
    { title: 'HELD', cell: (queue) => count(queue.held), align: 'right' },
    { title: 'RUNNING', cell: (queue) => count(queue.running), align: 'right' },
    {
      title: 'OLDEST',
      cell: ({ oldestReadyAt: at }, clock) => (at === null ? '-' : timeWithDistance(at, clock)),
    },
    { title: 'PAUSED', cell: ({ paused }) => (paused === null ? '-' : paused.reason), flexible: true },
  ],
  fields: (queue, clock) => [
    ['Queue', queue.name],
    ['Ready', count(queue.ready)],
    ['Held', count(queue.held)],
    ['Running', count(queue.running)],
    ['Paused', pausedWords(queue.paused, (at) => timeWithDistance(at, clock))],
  ],
}

export const queuedRunShape: Shape<QueuedRun> = {
  name: (run) => run.runId,
  columns: [
    { title: '#', cell: (run) => String(run.place), align: 'right' },
    { title: 'RUN', cell: (run) => run.runId },
    { title: 'JOB', cell: (run) => run.job, flexible: true },
    { title: 'PRIORITY', cell: (run) => String(run.priority), align: 'right' },
    { title: 'TAG', cell: (run) => run.tag.toFixed(2), align: 'right' },
    { title: 'AHEAD', cell: (run) => run.ahead.toFixed(1), align: 'right' },
    { title: 'MOVED', cell: (run) => run.priorityEffect.toFixed(1), align: 'right' },
    { title: 'READY SINCE', cell: (run, clock) => timeWithDistance(run.readySince, clock) },
  ],
  fields: () => [],
}

export const heldGroupShape: Shape<HeldGroup> = {
  name: (group) => group.job,
  columns: [
    { title: 'JOB', cell: (group) => group.job, flexible: true },
    { title: 'RUNS', cell: (group) => (group.runs >= 1_000 ? '1000+' : String(group.runs)), align: 'right' },
    { title: 'FIRST RUN', cell: (group) => group.firstRunId ?? '-' },
    { title: 'HELD BY', cell: (group) => group.why, flexible: true },
  ],
  fields: () => [],
}

type Clock = Parameters<typeof timeWithDistance>[1]

function pausedWords(paused: Queue['paused'], at: (since: string) => string): string {
  return paused === null ? 'no' : `since ${at(paused.since)}: ${paused.reason}`
}

/** Limits of a job, as far as it has any. */
export function jobLimitFields(job: Job, clock: Clock): (readonly [string, string])[] {
  const { concurrency, rateLimit, paused } = job
  const since = (at: string): string => timeWithDistance(at, clock)
  return [
    ...(concurrency === null ? [] : [['At once', concurrencyWords(concurrency)] as const]),
    ...(rateLimit === null
      ? []
      : [
          [
            'Rate',
            `${rateWords(rateLimit)}${rateLimit.key === null ? '' : ` for each ${rateLimit.key}`}`,
          ] as const,
        ]),
    ...(paused === null ? [] : [['Paused', pausedWords(paused, since)] as const]),
  ]
}

const atLimitWords = {
  queue: 'others wait',
  skip: 'others are skipped',
  replace: 'newer ones replace older ones',
}

function concurrencyWords({ limit, key, keyLimit, pools, onLimit }: NonNullable<Job['concurrency']>): string {
  const parts = [
    ...(limit === null ? [] : [`${limit} runs`]),
    ...(key === null ? [] : [`${keyLimit} for each ${key}`]),
    ...pools.map(({ name, weight }) => `${weight} of the pool ${name}`),
  ]
  return `${parts.join(', ')}; ${atLimitWords[onLimit]}`
}
