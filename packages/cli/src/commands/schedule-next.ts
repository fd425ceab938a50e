/**
 * `belfry schedule next`: when a schedule fires, in words and times, with what people misread in it. Offline:
 * it asks no server, needs no context, and works from the zone data of this machine.
 */
import { onExcludedPolicies } from '@belfry/contract'
import type { KeptTimes, Schedule } from '@belfry/server/schedule'
import type { Call, Command } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { renderTable } from '../output/table.ts'
import { plain } from '../output/text.ts'
import { relativeWords } from '../output/times.ts'
import { calendarsOf } from './calendar-file.ts'
import { answerBatch } from './schedule-batch.ts'
import type { Evaluator } from './schedule-evaluator.ts'
import { isWritable, loadEvaluator, utcText } from './schedule-evaluator.ts'
import type { Asked } from './schedule-next-flags.ts'
import { askedByFlags, invalid, nextFieldFlags, nextFlags } from './schedule-next-flags.ts'

type Warning = { readonly code: string; readonly message: string; readonly at: string | null }

async function next(call: Call): Promise<undefined> {
  const evaluator = await loadEvaluator()
  if (call.flags.text('batch') !== undefined) return batch(call, evaluator)
  const asked = askedByFlags(call, evaluator)
  const compiled = evaluator.compile(asked.spec, { ...asked.bounds, zones: evaluator.zones })
  if (!compiled.ok) throw invalid(compiled.error)
  const schedule = await underCalendars(call, evaluator, compiled.value)
  const kept = keptOf(asked, schedule)
  const warnings = [
    ...schedule.warnings(asked.fromMs).map(({ code, message, atMs }) => ({
      code,
      message,
      at: atMs === null || !isWritable(atMs) ? null : utcText(atMs),
    })),
    ...walkWarning(kept),
  ]
  const value = {
    [asked.direction]: kept.times.map(utcText),
    description: schedule.describe(),
    warnings,
    zone: { name: schedule.zoneName, dataVersion: evaluator.zones.dataVersion },
    ...(hasCalendars(call) ? { excluded: kept.excluded.map(shownExclusion) } : {}),
  }
  if (call.printer.format === 'name') call.printer.value(value, kept.times.map(utcText))
  else call.printer.value(value, linesFor(call, evaluator, asked, schedule, kept, warnings))
  return undefined
}

async function batch(call: Call, evaluator: Evaluator): Promise<undefined> {
  const [other] = call.flags.given(nextFlags.map(({ name }) => name).filter((name) => name !== 'batch'))
  if (other !== undefined)
    throw new UsageError(`--batch takes everything from its file; leave out --${other}`)
  const text = (await call.flags.file('batch')) ?? ''
  answerBatch(text, evaluator, call.io.now(), call.io.stdout)
  return undefined
}

const hasCalendars = (call: Call): boolean => call.flags.given(['calendar', 'only-on']).length > 0

/** The schedule under the calendars of the flags; faults point at the fields that name them. */
async function underCalendars(call: Call, evaluator: Evaluator, schedule: Schedule): Promise<Schedule> {
  const { zoneName } = schedule
  const read = (name: string, pointer: string) =>
    calendarsOf(call.flags.list(name), { flag: `--${name}`, pointer, zoneName }, evaluator, call.io)
  const calendars = { skipOn: await read('calendar', '/skipOn'), onlyOn: await read('only-on', '/onlyOn') }
  const onExcluded = call.flags.choice('on-excluded', onExcludedPolicies) ?? 'skip'
  if (onExcluded !== 'skip' && calendars.skipOn.length + calendars.onlyOn.length === 0)
    throw new UsageError(
      '--on-excluded says what becomes of times that --calendar or --only-on leave out; give one',
    )
  const found = schedule.under({ ...calendars, onExcluded })
  if (!found.ok) throw invalid(found.error)
  return found.value
}

function keptOf({ direction, fromMs, count }: Asked, schedule: Schedule): KeptTimes {
  const kept =
    direction === 'next' ? schedule.runningAfter(fromMs, count) : schedule.runningBefore(fromMs, count)
  return {
    ...kept,
    times: kept.times.filter(isWritable),
    excluded: kept.excluded.filter(({ timeMs }) => isWritable(timeMs)),
  }
}

const shownExclusion = ({ timeMs, calendar, reason, movedToMs }: KeptTimes['excluded'][number]) => ({
  at: utcText(timeMs),
  calendar,
  reason,
  ...(movedToMs === undefined ? {} : { movedTo: utcText(movedToMs) }),
})

function walkWarning({ complete, excludedCount }: KeptTimes): readonly Warning[] {
  if (complete) return []
  const left = `the calendars leave out ${excludedCount.toLocaleString('en')} planned times in a row`
  return [{ code: 'calendars', message: `${left}: no further one was looked at`, at: null }]
}

/** For people: the words, a table of times in the zone and in UTC, what was left out, the warnings. */
function linesFor(
  call: Call,
  { zones }: Evaluator,
  asked: Asked,
  schedule: Schedule,
  kept: KeptTimes,
  warnings: readonly Warning[],
): string[] {
  const { paint } = call.printer
  const side = asked.direction === 'next' ? 'after' : 'before'
  const none = `No planned time ${side} ${utcText(asked.fromMs)}.`
  return [
    paint(plain(schedule.describe()), 'strong'),
    '',
    ...(kept.times.length === 0 ? [none] : timesTable(call, zones.get(schedule.zoneName), schedule, kept)),
    ...(kept.excluded.length === 0 ? [] : ['']),
    ...kept.excluded.map(({ timeMs, reason, movedToMs }) => {
      const moved = movedToMs === undefined ? '' : `; moved to ${utcText(movedToMs)}`
      return `${paint('left out:', 'busy')} ${utcText(timeMs)}, ${plain(reason)}${moved}`
    }),
    ...(kept.excludedCount > kept.excluded.length ? [`… and ${kept.excludedCount} in all`] : []),
    ...(warnings.length === 0 ? [] : ['']),
    ...warnings.map(({ code, message }) => `${paint('warning:', 'busy')} ${plain(message)} (${code})`),
    '',
    paint(`Zone ${schedule.zoneName}, data ${zones.dataVersion} (${zones.source})`, 'faint'),
  ]
}

function timesTable(
  call: Call,
  zone: { offsetAt(instantMs: number): number } | undefined,
  schedule: Schedule,
  { times }: KeptTimes,
): string[] {
  const { io, printer } = call
  const notes = times.map((timeMs) => schedule.dstNote(timeMs))
  const away = call.flags.given(['from', 'before']).length === 0
  const columns = [
    { title: 'LOCAL TIME', cell: (timeMs: number) => localText(timeMs, zone?.offsetAt(timeMs) ?? 0) },
    { title: 'UTC', cell: utcText },
    ...(away ? [{ title: 'IN', cell: (timeMs: number) => relativeWords(timeMs - io.now()) }] : []),
    ...(notes.every((note) => note === null)
      ? []
      : [{ title: 'CLOCK CHANGE', cell: (timeMs: number) => notes[times.indexOf(timeMs)] ?? '' }]),
  ]
  const rows = times.map((timeMs) => columns.map(({ cell }) => ({ text: cell(timeMs) })))
  return renderTable(columns, rows, {
    columns: io.stdout.isTTY === true ? io.stdout.columns : undefined,
    paint: printer.paint,
  })
}

const weekdays = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat']

/** "Sun 2026-03-29 03:00:00 +02:00". */
function localText(timeMs: number, offsetMs: number): string {
  const local = new Date(timeMs + offsetMs)
  const [date = '', clock = ''] = local.toISOString().slice(0, 19).split('T')
  const minutes = Math.round(Math.abs(offsetMs) / 60_000)
  const two = (value: number): string => String(value).padStart(2, '0')
  const offset = `${offsetMs < 0 ? '-' : '+'}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`
  return `${weekdays[local.getUTCDay()] ?? ''} ${date} ${clock} ${offset}`
}

export const scheduleNextCommand: Command = {
  noun: 'schedule',
  verb: 'next',
  summary: 'Show when a schedule would fire, in words and times, without a server',
  details:
    'Works offline and stores nothing. Times with an offset are instants; those without are in --tz.' +
    ' A refused expression exits with 2 and names the field.',
  flags: nextFlags,
  effect: 'local',
  fieldFlags: nextFieldFlags,
  examples: [
    {
      words: 'The next five times, with what the clock change does to them',
      command: "belfry schedule next --cron '30 2 * * *' --tz Europe/Berlin --from 2026-03-28T12:00:00Z",
    },
    {
      words: 'What an EventBridge expression means',
      command: "belfry schedule next --dialect eventbridge --cron 'cron(0 9 ? * 3#2 *)' -o json",
    },
    {
      words: 'Every second Friday, but not on a holiday',
      command:
        "belfry schedule next --every 'every 2 weeks on fri at 09:00' --start 2026-01-02T00:00:00Z" +
        ' --calendar holidays.yaml',
    },
    {
      words: 'When it last was due',
      command: "belfry schedule next --cron '0 9 * * 1-5' --before now --count 1",
    },
  ],
  run: next,
}
