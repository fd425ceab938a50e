/**
 * Flags of jobs whose requests become one run, each as its parts in a row: `--debounce 5s,1m,customerId`,
 * `--collect 100,30s,region`, or `none`.
 */
import type { BodyOf } from '@belfry/sdk'
import type { Call, FlagSpec } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { durationMs } from '../values.ts'
import { given } from './shared.ts'

export const gatheringFlags: readonly FlagSpec[] = [
  {
    name: 'debounce',
    value: 'window,most[,key]',
    summary:
      'One run, with the newest input, when no request came for the window, at most so late; or `none`',
  },
  {
    name: 'collect',
    value: 'items,window[,key]',
    summary: 'One run for up to so many requests, or for those of the window: it gets their list; or `none`',
  },
]

export const gatheringFieldFlags: Readonly<Record<string, string>> = {
  '/debounce': '--debounce',
  '/debounce/windowMs': '--debounce',
  '/debounce/maxWaitMs': '--debounce',
  '/debounce/key': '--debounce',
  '/collect': '--collect',
  '/collect/maxItems': '--collect',
  '/collect/windowMs': '--collect',
  '/collect/key': '--collect',
}

type Gathering = Pick<BodyOf<'jobCreate'>, 'debounce' | 'collect'>

export function gatheringFromFlags(call: Call): Gathering {
  return given({
    debounce: parts(call, 'debounce', '5s,1m or 5s,1m,customerId', ([window = '', most = '', ...key]) => ({
      windowMs: durationMs(window, '--debounce'),
      maxWaitMs: durationMs(most, '--debounce'),
      key: keyOf(key),
    })),
    collect: parts(call, 'collect', '100,30s or 100,30s,region', ([items = '', window = '', ...key]) => ({
      maxItems: Number(items),
      windowMs: durationMs(window, '--collect'),
      key: keyOf(key),
    })),
  })
}

/** A pointer may hold commas. */
const keyOf = (rest: readonly string[]): string | null => (rest.length === 0 ? null : rest.join(','))

function parts<T>(
  call: Call,
  name: string,
  example: string,
  read: (parts: readonly string[]) => T,
): T | null | undefined {
  const text = call.flags.text(name)
  if (text === undefined) return undefined
  if (text === 'none') return null
  const split = text.split(',').map((part) => part.trim())
  if (split.length < 2)
    throw new UsageError(`--${name} "${text}" lacks a part; write it like ${example}, or none`)
  return read(split)
}
