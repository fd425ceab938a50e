/**
 * How backfills look to people: a list, one with how far it has come, and the preview of one. Times are shown
 * as everywhere on the command line (times.ts).
 */
import type { Backfill, BackfillPreview, BackfillSummary, RunSummary } from '@belfry/contract'
import { toneOf } from './paint.ts'
import type { Shape } from './printer.ts'
import type { Cell } from './table.ts'
import type { Clock } from './times.ts'
import { timeWithDistance, timeWords } from './times.ts'

const state = ({
  state: text,
  reason,
}: {
  readonly state: string
  readonly reason: string | null
}): Cell => ({
  text: reason === null ? text : `${text} (${reason})`,
  tone: toneOf(text),
})

const maybeTime = (instant: string | null, clock: Clock): string =>
  instant === null ? '-' : timeWithDistance(instant, clock)

const rangeWords = ({ from, to }: Pick<Backfill, 'from' | 'to'>, clock: Clock): string =>
  `${timeWords(from, clock)} to ${timeWords(to, clock)}`

/** "7 of 24 looked at, 5 started". */
export const progressWords = ({
  total,
  started,
  skipped,
}: Pick<Backfill, 'total' | 'started' | 'skipped'>): string =>
  `${started + skipped} of ${total} looked at, ${started} started`

/** "4 succeeded, 1 failed, 0 canceled, 2 alive". */
export const endsWords = ({
  succeeded,
  failed,
  canceled,
  alive,
}: Pick<Backfill, 'succeeded' | 'failed' | 'canceled' | 'alive'>): string =>
  `${succeeded} succeeded, ${failed} failed, ${canceled} canceled, ${alive} alive`

const orderWords = { oldest_first: 'oldest first', newest_first: 'newest first' } as const
const reprocessWords = {
  none: 'only planned times without a run',
  failed: 'also planned times whose newest run did not succeed',
  all: 'every planned time',
} as const

export const backfillSummaryShape: Shape<BackfillSummary> = {
  name: (backfill) => backfill.id,
  columns: [
    { title: 'ID', cell: (backfill) => backfill.id },
    { title: 'SCHEDULE', cell: (backfill) => backfill.schedule, flexible: true },
    { title: 'RANGE', cell: rangeWords },
    { title: 'STATE', cell: state, flexible: true },
    { title: 'DONE', cell: ({ total, started, skipped }) => `${started + skipped}/${total}`, align: 'right' },
    { title: 'FAILED', cell: ({ failed }) => String(failed), align: 'right' },
    { title: 'ALIVE', cell: ({ alive }) => String(alive), align: 'right' },
  ],
  fields: () => [],
}

export const backfillShape: Shape<Backfill> = {
  ...backfillSummaryShape,
  fields: (backfill, clock) => [
    ['Id', backfill.id],
    ['Schedule', backfill.schedule],
    ['State', state(backfill)],
    ...settingFields(backfill, clock),
    ['Planned times', progressWords(backfill)],
    ['Runs', endsWords(backfill)],
    ['Looks next at', maybeTime(backfill.nextAt, clock)],
    ['Made', timeWithDistance(backfill.createdAt, clock)],
    ['Started', maybeTime(backfill.startedAt, clock)],
    ['Ended', maybeTime(backfill.endedAt, clock)],
  ],
}

/** Runs of a backfill: what each was planned for says more than when it was due. */
export const backfillRunShape: Shape<RunSummary> = {
  name: (run) => run.id,
  columns: [
    { title: 'ID', cell: (run) => run.id },
    { title: 'PLANNED FOR', cell: (run, clock) => timeWords(run.scheduledFor ?? '-', clock) },
    { title: 'STATE', cell: (run) => state(run), flexible: true },
    { title: 'ATTEMPTS', cell: (run) => `${run.attempts}/${run.maxAttempts}`, align: 'right' },
    { title: 'FINISHED', cell: (run, clock) => maybeTime(run.finishedAt, clock) },
  ],
  fields: () => [],
}

function settingFields(backfill: Backfill, clock: Clock): (readonly [string, string])[] {
  const { order, concurrency, reprocess, input } = backfill
  return [
    ['Range', rangeWords(backfill, clock)],
    ['Order', `${orderWords[order]}, ${concurrency} at a time`],
    ['Runs again', reprocessWords[reprocess]],
    ['Input', input === null ? 'that of the schedule' : JSON.stringify(input)],
  ]
}

/** Of the answer of a dry run. */
export const backfillPreviewShape: Shape<Backfill> = {
  ...backfillShape,
  fields: (backfill, clock) => [
    ['Schedule', backfill.schedule],
    ...settingFields(backfill, clock),
    ['Planned times', String(backfill.total)],
    ...(backfill.preview === null ? [] : previewFields(backfill.preview, clock)),
  ],
}

function previewFields(preview: BackfillPreview, clock: Clock): (readonly [string, string])[] {
  const { exact, looked } = preview
  const ofLooked = exact ? '' : ` (of the first ${looked} that were looked at)`
  const least = (count: number): string => `${exact ? '' : 'at least '}${count}`
  return [
    ['Would run', `${least(preview.wouldRun)}${ofLooked}`],
    ['Without a run', least(preview.without)],
    ['Have run', least(looked - preview.without)],
    ['  of those', haveRunWords(preview)],
    ...(preview.excluded === 0 ? [] : [['Left out by calendars', least(preview.excluded)] as const]),
    ...(preview.leftToSchedule === 0
      ? []
      : [['Left to the schedule', least(preview.leftToSchedule)] as const]),
    ...preview.first.map((at, index) => [index === 0 ? 'First' : '', timeWords(at, clock)] as const),
    ...preview.last.map((at, index) => [index === 0 ? 'Last' : '', timeWords(at, clock)] as const),
    ...preview.notes.map((note) => ['Note', note] as const),
  ]
}

function haveRunWords({ unknown, ...preview }: BackfillPreview): string {
  const past = unknown === 0 ? '' : `, ${unknown} with an end that is no longer on record`
  return `${endsWords(preview)}${past}`
}
