/**
 * Flags for the limits of a job, and what they mean. On a change the parts that are given are laid over the
 * limits that are there.
 */
import type { Job } from '@belfry/contract'
import { atLimits, maxConcurrency } from '@belfry/contract'
import type { BodyOf } from '@belfry/sdk'
import type { Call, FlagSpec } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { durationMs } from '../values.ts'
import { given } from './shared.ts'

export const limitFlags: readonly FlagSpec[] = [
  { name: 'concurrency', value: 'count', summary: 'Runs of the job at once, 1 to 10,000, or `none`' },
  {
    name: 'concurrency-key',
    value: 'field',
    summary: 'Field of the input, or JSON pointer: runs with the same value go one at a time; or `none`',
  },
  { name: 'key-limit', value: 'count', summary: 'With --concurrency-key: so many at a time' },
  {
    name: 'pool',
    value: 'name[:weight]',
    repeat: true,
    summary: 'Pool that each run takes slots of, 1 unless a weight is given; `none` for no pool',
  },
  {
    name: 'on-limit',
    value: 'what',
    choices: atLimits,
    summary:
      'At one of these limits a run waits (queue), ends (skip), or takes the place of older ones (replace)',
  },
  {
    name: 'rate',
    value: 'count/time[,burst]',
    summary: 'Starts in a stretch of time, such as 100/1m or 10/1s,50; or `none`',
  },
  { name: 'rate-key', value: 'field', summary: 'The rate holds for each value of this field, or `none`' },
]

export const limitFieldFlags: Readonly<Record<string, string>> = {
  '/concurrency': '--concurrency',
  '/concurrency/limit': '--concurrency',
  '/concurrency/key': '--concurrency-key',
  '/concurrency/keyLimit': '--key-limit',
  '/concurrency/pools': '--pool',
  '/concurrency/onLimit': '--on-limit',
  '/rateLimit': '--rate',
  '/rateLimit/count': '--rate',
  '/rateLimit/perMs': '--rate',
  '/rateLimit/burst': '--rate',
  '/rateLimit/key': '--rate-key',
}

type Limits = Pick<BodyOf<'jobCreate'>, 'concurrency' | 'rateLimit'>

/** `present`: the limits that are there, for a change. */
export function limitsFromFlags(
  call: Call,
  present: Pick<Job, 'concurrency' | 'rateLimit'> | undefined,
): Limits {
  return given({
    concurrency: concurrency(call, present?.concurrency ?? null),
    rateLimit: rateLimit(call, present?.rateLimit ?? null),
  })
}

function concurrency(call: Call, present: Job['concurrency']): Limits['concurrency'] {
  if (call.flags.given(['concurrency', 'concurrency-key', 'key-limit', 'pool', 'on-limit']).length === 0)
    return undefined
  const changed = {
    ...present,
    ...given({
      limit: wholeOrNone(call, 'concurrency'),
      key: textOrNone(call, 'concurrency-key'),
      keyLimit: call.flags.whole('key-limit', 1, 10_000),
      pools: pools(call),
      onLimit: call.flags.choice('on-limit', atLimits),
    }),
  }
  const { limit = null, key = null, pools: named = [] } = changed
  if (limit !== null || key !== null || named.length > 0) return changed
  refuseAlone(call)
  return null
}

/** Nothing is limited: what says how it is limited would be lost without a word. */
function refuseAlone(call: Call): void {
  if (call.flags.text('key-limit') !== undefined)
    throw new UsageError('--key-limit needs --concurrency-key, such as --concurrency-key customerId')
  if (call.flags.text('on-limit') !== undefined)
    throw new UsageError('--on-limit needs a limit: --concurrency, --concurrency-key or --pool')
}

function pools(call: Call) {
  const asked = call.flags.list('pool')
  if (asked.length === 0) return undefined
  if (asked.length === 1 && asked[0] === 'none') return []
  return asked.map((text) => {
    const [name = '', weight] = text.split(':')
    if (weight !== undefined && !/^\d{1,3}$/.test(weight))
      throw new UsageError(`--pool "${text}": write it like api or api:3`)
    return { name, weight: weight === undefined ? 1 : Number(weight) }
  })
}

function rateLimit(call: Call, present: Job['rateLimit']): Limits['rateLimit'] {
  if (call.flags.text('rate') === 'none') return null
  const rate = rateFromFlag(call)
  const key = textOrNone(call, 'rate-key')
  if (rate === undefined && key === undefined) return undefined
  if (rate === undefined && present === null)
    throw new UsageError('--rate-key needs --rate, such as --rate 100/1m')
  const whole = rate ?? present
  return whole === null ? undefined : { ...whole, key: key === undefined ? (present?.key ?? null) : key }
}

/** "100/1m" or "10/1s,50". */
export function rateFromFlag(call: Call): { count: number; perMs: number; burst: number | null } | undefined {
  const text = call.flags.text('rate')
  if (text === undefined || text === 'none') return undefined
  const parts = /^(\d{1,7})\/([^,]+)(?:,(\d{1,7}))?$/.exec(text.trim())
  if (parts === null) throw new UsageError(`--rate "${text}": write it like 100/1m or 10/1s,50, or none`)
  const [, count = '', time = '', burst] = parts
  const perMs = durationMs(/^\d/.test(time) ? time : `1${time}`, '--rate')
  return { count: Number(count), perMs, burst: burst === undefined ? null : Number(burst) }
}

export function wholeOrNone(
  call: Call,
  name: string,
  least = 1,
  most = maxConcurrency,
): number | null | undefined {
  return call.flags.text(name) === 'none' ? null : call.flags.whole(name, least, most)
}

export function textOrNone(call: Call, name: string): string | null | undefined {
  const text = call.flags.text(name)
  return text === 'none' ? null : text
}
