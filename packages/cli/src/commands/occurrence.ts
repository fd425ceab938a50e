/**
 * `belfry occurrence list`: the ledger of planned times. `belfry schedule occurrences` is the same list by
 * another way in.
 */
import { occurrenceOutcomes, occurrenceReasons } from '@belfry/contract'
import type { Call, Command, FlagSpec } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { occurrenceShape } from '../output/shapes.ts'
import { findSchedule, isId } from '../resolve-name.ts'
import { nextWords } from './schedule-actions.ts'
import { given, listFlags, pageQuery, printList, refuseTogether } from './shared.ts'

export const occurrenceFlags: readonly FlagSpec[] = [
  {
    name: 'outcome',
    value: 'outcome',
    choices: occurrenceOutcomes,
    summary: 'Only those that ended like this',
  },
  { name: 'missed', summary: 'The same as --outcome missed' },
  { name: 'reason', value: 'reason', choices: occurrenceReasons, summary: 'Only those left out for this' },
  { name: 'since', value: 'time', summary: 'From this time on: 1d (ago), or 2026-12-01T00:00:00Z' },
  { name: 'until', value: 'time', summary: 'Before this time' },
  ...listFlags,
]

/** `wanted`: name or id of a schedule; of one that was deleted, the id. */
export async function printOccurrences(call: Call, wanted: string): Promise<undefined> {
  refuseTogether(call, 'outcome', 'missed')
  const client = await call.client()
  const schedule = isId(wanted) ? undefined : await findSchedule(client, wanted)
  const query = {
    ...pageQuery(call),
    ...given({
      outcome: call.flags.on('missed')
        ? ('missed' as const)
        : call.flags.choice('outcome', occurrenceOutcomes),
      reason: call.flags.choice('reason', occurrenceReasons),
      from: call.flags.pastInstant('since'),
      to: call.flags.pastInstant('until'),
    }),
  }
  const next = schedule === undefined ? '' : `; ${nextWords(call, schedule)}`
  const filtered = call.flags.given(['outcome', 'missed', 'reason', 'since', 'until']).length > 0
  const none = filtered ? 'No planned time on record is like that' : 'Nothing fell due'
  const empty = `${none}${next}. See: belfry schedule explain ${schedule?.name ?? wanted}`
  const items = client.schedules.occurrences(schedule?.id ?? wanted, query)
  await printList(call, items, occurrenceShape, empty)
}

async function list(call: Call): Promise<undefined> {
  const wanted = call.flags.text('schedule')
  if (wanted === undefined) {
    throw new UsageError(
      'say of which schedule: --schedule nightly; see `belfry schedule list` for the names',
    )
  }
  return printOccurrences(call, wanted)
}

export const occurrenceCommands: readonly Command[] = [
  {
    noun: 'occurrence',
    verb: 'list',
    summary: 'What became of each planned time of a schedule, newest first',
    details: 'Also of a deleted schedule, by its id. Why in words: belfry schedule explain.',
    flags: [
      { name: 'schedule', value: 'schedule', summary: 'Name or id of the schedule' },
      ...occurrenceFlags,
    ],
    effect: 'read',
    examples: [
      {
        words: 'What was missed this week',
        command: 'belfry occurrence list --schedule nightly --missed --since 7d',
      },
      {
        words: 'What a calendar left out',
        command: 'belfry occurrence list --schedule nightly --reason calendar',
      },
    ],
    run: list,
  },
]
