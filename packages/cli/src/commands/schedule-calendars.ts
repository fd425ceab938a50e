/**
 * Flags that name the calendars of a schedule, for `schedule create` and `schedule update`, and the part of
 * the body that they make. What is not given is left out of it.
 */
import { onExcludedPolicies } from '@belfry/contract'
import type { BodyOf } from '@belfry/sdk'
import type { Call, FlagSpec } from '../command.ts'
import { given } from './shared.ts'

export const calendarUseFlags: readonly FlagSpec[] = [
  {
    name: 'skip-on',
    value: 'calendar',
    repeat: true,
    summary: 'Leave out what this calendar covers; `none`: no calendar',
  },
  {
    name: 'only-on',
    value: 'calendar',
    repeat: true,
    summary: 'Keep only what this calendar covers; `none`: no calendar',
  },
  {
    name: 'on-excluded',
    value: 'policy',
    choices: onExcludedPolicies,
    summary: 'What becomes of a time that is left out; skip if not given',
  },
]

export const calendarUseFieldFlags: Readonly<Record<string, string>> = {
  '/skipOn': '--skip-on',
  '/onlyOn': '--only-on',
  '/onExcluded': '--on-excluded',
}

export const calendarUseFromFlags = (
  call: Call,
): Pick<BodyOf<'scheduleCreate'>, 'skipOn' | 'onlyOn' | 'onExcluded'> =>
  given({
    skipOn: namesOf(call, 'skip-on'),
    onlyOn: namesOf(call, 'only-on'),
    onExcluded: call.flags.choice('on-excluded', onExcludedPolicies),
  })

/** Names as they are given, one by one or separated by commas; none of them for `none`. */
function namesOf(call: Call, flag: string): string[] | undefined {
  const names = call.flags.list(flag).flatMap((text) => text.split(',').map((name) => name.trim()))
  if (names.length === 0) return undefined
  return names.length === 1 && names[0] === 'none' ? [] : names
}
