/**
 * `belfry schedule explain`: when a schedule runs next, and why it ran or did not run at a time. The
 * sentences are the server's.
 */
import type { ExplainedTime, Explanation } from '@belfry/contract'
import type { Call, Command } from '../command.ts'
import { required } from '../command.ts'
import { toneOf } from '../output/paint.ts'
import { plain } from '../output/text.ts'
import { findSchedule, isId } from '../resolve-name.ts'
import { scheduleArgument } from './schedule-actions.ts'
import { given, refuseTogether } from './shared.ts'

async function explain(call: Call): Promise<undefined> {
  refuseTogether(call, 'at', 'from')
  refuseTogether(call, 'at', 'to')
  const client = await call.client()
  const wanted = required(call, 'schedule')
  const id = isId(wanted) ? wanted : (await findSchedule(client, wanted)).id
  const explanation = await client.schedules.explain(
    id,
    given({
      at: call.flags.text('at'),
      from: call.flags.pastInstant('from'),
      to: call.flags.instant('to'),
      limit: call.flags.whole('limit', 1, 100),
    }),
  )
  const { printer } = call
  if (printer.format === 'name')
    printer.value(
      explanation,
      explanation.times.map(({ scheduledFor }) => scheduledFor),
    )
  else printer.value(explanation, linesFor(call, explanation))
  return undefined
}

/** How it stands, what comes, what was; the time first, the reason under it. */
function linesFor(call: Call, explanation: Explanation): string[] {
  const { paint } = call.printer
  const { schedule, standing, words, next, times, planned, more, from, to } = explanation
  const none = 'Nothing was planned or is on record in this stretch.'
  return [
    `${paint(plain(schedule), 'strong')}: ${plain(standing)}`,
    ...(words === null ? [] : [plain(words)]),
    ...(next.length === 0 ? [] : ['', paint('To come', 'faint')]),
    ...next.flatMap((time) => timeLines(call, time)),
    '',
    paint(`From ${from} to before ${to}${countWords(planned)}`, 'faint'),
    ...(times.length === 0 ? [none] : times.flatMap((time) => timeLines(call, time))),
    ...(more === null
      ? []
      : ['', `There is more: belfry schedule explain ${schedule} --from ${more} --to ${to}`]),
  ]
}

function countWords(planned: Explanation['planned']): string {
  if (planned === null) return ''
  const least = planned.capped ? 'at least ' : ''
  return `: ${least}${planned.count.toLocaleString('en')} planned time${planned.count === 1 ? '' : 's'}`
}

function timeLines(call: Call, time: ExplainedTime): string[] {
  const { paint } = call.printer
  const { local, verdict, message, fix, note, runs } = time
  // the message speaks of the first where the time ran
  const others = verdict === 'ran' ? runs.slice(1) : runs
  const tone = toneOf(verdict)
  const word = verdict.replaceAll('_', ' ')
  const verdictWords = tone === undefined ? word : paint(word, tone)
  return [
    `${local.replace('T', ' ').replace(/([+-]\d\d:\d\d)$/, ' $1')}  ${verdictWords}`,
    `    ${plain(message)}`,
    ...(note === null ? [] : [`    Clock: ${plain(note)}.`]),
    ...others.map(({ id, source, state }) => `    Later by ${source}: run ${id} ${state}.`),
    ...(fix === null ? [] : [`    ${paint('What to do:', 'busy')} ${plain(fix)}`]),
  ]
}

export const scheduleExplainCommand: Command = {
  noun: 'schedule',
  verb: 'explain',
  summary: 'When a schedule runs next, and why it ran or did not run',
  details:
    'Without --at, --from and --to: the last five planned times. Also of a deleted schedule, by its id. ' +
    'Every planned time by the timing as it is, joined with what is on record.',
  arguments: [scheduleArgument],
  flags: [
    {
      name: 'at',
      value: 'time',
      summary: 'A time: 2026-12-01T02:30 (its own zone), with offset, or a day: 2026-12-01, today, yesterday',
    },
    { name: 'from', value: 'time', summary: 'From this time on: 7d (ago), or 2026-12-01T00:00:00Z' },
    { name: 'to', value: 'time', summary: 'Before this time; now if left out' },
    { name: 'limit', value: 'count', summary: 'Planned times to show, 1 to 100; 50 if left out' },
  ],
  effect: 'read',
  fieldFlags: {
    '/query/at': '--at',
    '/query/from': '--from',
    '/query/to': '--to',
    '/query/limit': '--limit',
  },
  examples: [
    { words: 'When next, and what became of the last times', command: 'belfry schedule explain nightly' },
    { words: 'Why not yesterday?', command: 'belfry schedule explain nightly --at yesterday' },
    { words: 'A week', command: 'belfry schedule explain nightly --from 7d -o json' },
  ],
  run: explain,
}
