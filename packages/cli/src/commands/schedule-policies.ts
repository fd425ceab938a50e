/**
 * Flags that say how a schedule deals with lateness, overlap,
 * failures and its own end, and what they mean.
 */
import { afterCompletions, overlapPolicies } from '@belfry/contract'
import type { BodyOf } from '@belfry/sdk'
import type { Call, FlagSpec } from '../command.ts'
import { given } from './shared.ts'

const catchUps = ['latest', 'all', 'none'] as const

export const schedulePolicyFlags: readonly FlagSpec[] = [
  { name: 'jitter', value: 'duration', summary: 'Spread the start over this long, each time anew' },
  {
    name: 'flexible-window',
    value: 'duration',
    summary: 'Start all its runs later by one delay of its own, up to this; instead of --jitter',
  },
  {
    name: 'catch-up',
    value: 'policy',
    choices: catchUps,
    summary: 'What runs of the times that fell due while Belfry was down; at most a minute late always',
  },
  { name: 'catch-up-window', value: 'duration', summary: 'How late a run may start; 365d if left out' },
  { name: 'catch-up-max', value: 'count', summary: 'Most runs to catch up; 100 if left out' },
  {
    name: 'overlap',
    value: 'policy',
    choices: overlapPolicies,
    summary: 'When the run before has not ended',
  },
  { name: 'run-limit', value: 'count', summary: 'Completed after so many runs, or `none`; counts from now' },
  {
    name: 'pause-after-failures',
    value: 'count',
    summary: 'Pause it when so many runs failed one after the other, or `none`',
  },
  {
    name: 'after-completion',
    value: 'action',
    choices: afterCompletions,
    summary: 'Whether it stays when its last planned time is over',
  },
  { name: 'description', value: 'text', summary: 'What it is for' },
]

export const policyFieldFlags: Readonly<Record<string, string>> = {
  '/jitterMs': '--jitter',
  '/flexibleWindowMs': '--flexible-window',
  '/catchUp': '--catch-up',
  '/catchUp/windowMs': '--catch-up-window',
  '/catchUp/maxRuns': '--catch-up-max',
  '/overlap': '--overlap',
  '/runLimit': '--run-limit',
  '/pauseAfterFailures': '--pause-after-failures',
  '/afterCompletion': '--after-completion',
  '/description': '--description',
}

type Policies = Pick<
  BodyOf<'scheduleUpdate'>,
  | 'jitterMs'
  | 'flexibleWindowMs'
  | 'catchUp'
  | 'overlap'
  | 'runLimit'
  | 'pauseAfterFailures'
  | 'afterCompletion'
  | 'description'
>

/** What is given of them; null for a limit that is `none`. */
export const policiesFromScheduleFlags = (call: Call): Policies =>
  given({
    jitterMs: call.flags.durationMs('jitter'),
    flexibleWindowMs: call.flags.durationMs('flexible-window'),
    catchUp: catchUpFromFlags(call),
    overlap: call.flags.choice('overlap', overlapPolicies),
    runLimit: countOrNone(call, 'run-limit', 1_000_000),
    pauseAfterFailures: countOrNone(call, 'pause-after-failures', 100),
    afterCompletion: call.flags.choice('after-completion', afterCompletions),
    description: call.flags.text('description'),
  })

/** Undefined when none of its flags is given. */
function catchUpFromFlags(call: Call): Policies['catchUp'] {
  const catchUp = given({
    policy: call.flags.choice('catch-up', catchUps),
    windowMs: call.flags.durationMs('catch-up-window'),
    maxRuns: call.flags.whole('catch-up-max', 1, 1000),
  })
  return Object.keys(catchUp).length === 0 ? undefined : catchUp
}

function countOrNone(call: Call, name: string, max: number): number | null | undefined {
  return call.flags.text(name) === 'none' ? null : call.flags.whole(name, 1, max)
}
