/**
 * How dead letters look to people: a list, one with its run, groups by error; and the previews of operations
 * on many.
 */
import type {
  DeadLetter,
  DeadLetterDetail,
  DeadLetterGroup,
  DeadLetterReplayed,
  DeadLetterSelection,
  JobCount,
  RunSelection,
} from '@belfry/contract'
import { toneOf } from './paint.ts'
import type { Shape } from './printer.ts'
import { runShape } from './shapes.ts'
import { plain } from './text.ts'
import type { Clock } from './times.ts'
import { timeWithDistance, timeWords } from './times.ts'

const maybeTime = (instant: string | null, clock: Clock): string =>
  instant === null ? '-' : timeWithDistance(instant, clock)

export const deadLetterShape: Shape<DeadLetter> = {
  name: (letter) => letter.runId,
  columns: [
    { title: 'RUN', cell: (letter) => letter.runId },
    { title: 'JOB', cell: (letter) => letter.job, flexible: true },
    { title: 'FAILED', cell: (letter, clock) => timeWords(letter.failedAt, clock) },
    { title: 'ERROR', cell: ({ errorCode }) => plain(errorCode) },
    { title: 'FINGERPRINT', cell: ({ fingerprint }) => fingerprint },
    { title: 'STATE', cell: ({ state }) => ({ text: state, tone: toneOf(state) }) },
    { title: 'MESSAGE', cell: ({ errorMessage }) => plain(errorMessage ?? '-'), flexible: true },
  ],
  fields: (letter, clock) => [
    ['Failed', timeWithDistance(letter.failedAt, clock)],
    ['Error', `${plain(letter.errorMessage ?? '-')} (${plain(letter.errorCode)})`],
    ['Fingerprint', letter.fingerprint],
    ['Dead letter', { text: letter.state, tone: toneOf(letter.state) }],
    ...(letter.replayedAs === null
      ? []
      : [['Replayed as', `${letter.replayedAs}, ${maybeTime(letter.replayedAt, clock)}`] as const]),
    ...(letter.deletedAt === null ? [] : [['Deleted', maybeTime(letter.deletedAt, clock)] as const]),
    ['Kept until', timeWithDistance(letter.keptUntil, clock)],
  ],
}

export const deadLetterDetailShape: Shape<DeadLetterDetail> = {
  name: (letter) => letter.runId,
  columns: [],
  fields: (letter, clock) => [
    ...deadLetterShape.fields(letter, clock),
    ...runShape.fields(letter.run, clock),
  ],
}

export const replayedShape: Shape<DeadLetterReplayed> = {
  name: ({ run }) => run.id,
  columns: [
    { title: 'RUN', cell: ({ deadLetter }) => deadLetter.runId },
    { title: 'JOB', cell: ({ deadLetter }) => deadLetter.job },
    { title: 'REPLAYED AS', cell: ({ run }) => run.id },
  ],
  fields: () => [],
}

export const deadLetterGroupShape: Shape<DeadLetterGroup> = {
  name: (group) => group.fingerprint,
  columns: [
    { title: 'FINGERPRINT', cell: (group) => group.fingerprint },
    { title: 'COUNT', cell: (group) => String(group.count), align: 'right' },
    { title: 'ERROR', cell: (group) => plain(group.errorCode) },
    { title: 'FIRST', cell: (group, clock) => timeWords(group.firstAt, clock) },
    { title: 'LAST', cell: (group, clock) => timeWords(group.lastAt, clock) },
    { title: 'JOBS', cell: jobsWords, flexible: true },
    { title: 'MESSAGE', cell: (group) => plain(group.pattern === '' ? '-' : group.pattern), flexible: true },
  ],
  fields: () => [],
}

function jobsWords({ jobs, jobsTotal }: DeadLetterGroup): string {
  const more = jobsTotal - jobs.length
  return `${jobs.map(({ job }) => job).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

const stateCounts = (byState: RunSelection['byState']): string =>
  Object.entries(byState)
    .map(([state, count]) => `${state} ${count}`)
    .join(', ')

const amount = ({ count, exact }: { readonly count: number; readonly exact: boolean }): string =>
  exact ? String(count) : `${count} and more`
const jobList = (jobs: readonly JobCount[]): string =>
  jobs.length === 0 ? '-' : jobs.map(({ job, count }) => `${job} ${count}`).join(', ')

export const runSelectionShape: Shape<RunSelection> = {
  name: (selection) => String(selection.count),
  columns: [],
  fields: (selection) => [
    ['Runs', amount(selection)],
    ['By state', stateCounts(selection.byState)],
    ['By job', jobList(selection.byJob)],
    ...selection.sample.map((run) => ['For example', `${run.id} of ${run.job}, ${run.state}`] as const),
  ],
}

export const deadLetterSelectionShape: Shape<DeadLetterSelection> = {
  name: (selection) => String(selection.count),
  columns: [],
  fields: (selection) => [
    ['Dead letters', amount(selection)],
    ['By job', jobList(selection.byJob)],
    [
      'By error',
      selection.byError
        .map(({ fingerprint, errorCode, count }) => `${plain(errorCode)} (${fingerprint}) ${count}`)
        .join(', ') || '-',
    ],
    ...selection.sample.map(
      ({ runId, job, errorMessage }) =>
        ['For example', `${runId} of ${job}: ${plain(errorMessage ?? '-')}`] as const,
    ),
  ],
}
