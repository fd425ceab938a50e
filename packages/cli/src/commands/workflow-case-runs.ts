/**
 * Cases of runs that share a limit (workflow-cases.ts): each phase starts, ends or cancels one of them, and
 * has the states of all. At the limit a run waits, is skipped, or takes the place of the ones before.
 */
import {
  type Case,
  listOf,
  NotApplicable,
  objectOf,
  onlyKnown,
  textOf,
  wholeOf,
} from './workflow-case-words.ts'

const policyFields = ['policy', 'behavior', 'overlap', 'on_limit', 'strategy']
const limitFields = ['limit', 'max_active_runs', 'max_concurrent_runs', 'max_runs']
const groupFields = new Set(['group', 'cancel_in_progress', ...limitFields, ...policyFields])
const phaseFields = new Set(['action', 'run', 'state', 'outcome', 'concurrency', ...groupFields])

const policies: Readonly<Record<string, 'queue' | 'skip' | 'replace'>> = {
  queue: 'queue',
  buffer_all: 'queue',
  skip: 'skip',
  replace: 'replace',
  cancel_other: 'replace',
  cancel_in_progress: 'replace',
}
const ends = {
  success: 'succeeded',
  succeeded: 'succeeded',
  ok: 'succeeded',
  failed: 'failed',
  fail: 'failed',
} as const

export const isOfRuns = (entry: Case): boolean =>
  listOf(entry['phases']).some((phase) => objectOf(phase)['action'] === 'start_run')

/** Throws NotApplicable for what happens to none of Belfry's runs, such as one that fails at the limit. */
export function playRuns(entry: Case): object {
  const states = new Map<string, string>()
  const groups = new Map<string, string>()
  const phases = listOf(entry['phases']).map((each, index) => {
    const phase = objectOf(each)
    onlyKnown(phase, phaseFields, `phase ${index + 1}`)
    const common = {
      ...objectOf(objectOf(entry['scenario'])['concurrency']),
      ...objectOf(entry['concurrency']),
    }
    const settings: Case = { ...common, ...objectOf(phase['concurrency']), ...phase }
    for (const field of ['concurrency']) onlyKnown(objectOf(phase[field]), groupFields, `"${field}"`)
    const run = textOf(settings['run'], '')
    if (settings['action'] === 'start_run') groups.set(run, textOf(settings['group'], ''))
    const isFellow = (id: string): boolean => groups.get(id) === groups.get(run)
    take(states, settings, textOf(entry['system'], ''), isFellow)
    return { runs: Object.fromEntries(states) }
  })
  return { valid: true, phases }
}

/** Runs of other groups play no part. */
function take(
  states: Map<string, string>,
  settings: Case,
  system: string,
  isFellow: (run: string) => boolean,
): void {
  const run = textOf(settings['run'], '')
  const limit = wholeOf(
    settings[limitFields.find((field) => field in settings) ?? ''] ?? 1,
    1,
    'the limit of runs',
  )
  const standing = (state: string): string[] =>
    [...states].flatMap(([id, its]) => (its === state && isFellow(id) ? [id] : []))
  switch (settings['action']) {
    case 'start_run':
      states.set(run, admit(states, settings, limit, standing, system))
      break
    case 'finish_run':
    case 'end_run':
    case 'complete_run':
      states.set(run, endOf(textOf(settings['state'] ?? settings['outcome'], 'success')))
      break
    case 'cancel_run':
      states.set(run, 'canceled')
      break
    default:
      throw new NotApplicable(`the action "${textOf(settings['action'], '')}" is not known for runs`)
  }
  const free = Math.max(0, limit - standing('running').length)
  for (const next of standing('pending').slice(0, free)) states.set(next, 'running')
}

function admit(
  states: Map<string, string>,
  settings: Case,
  limit: number,
  standing: (state: string) => string[],
  system: string,
): string {
  const policy = policyOf(settings)
  const [running, waiting] = [standing('running'), standing('pending')]
  if (running.length + waiting.length < limit) return 'running'
  if (policy === 'skip') return 'skipped'
  if (policy === 'queue') {
    if (system === 'github_actions' && waiting.length > 0)
      throw new NotApplicable(
        'a run that waits is never given up for a newer one here, unless it is to replace it',
      )
    return 'pending'
  }
  const surplus = [...running, ...waiting].slice(0, running.length + waiting.length - limit + 1)
  for (const other of surplus) states.set(other, 'canceled')
  return 'running'
}

function policyOf(settings: Case): 'queue' | 'skip' | 'replace' {
  if (settings['cancel_in_progress'] === true) return 'replace'
  const word = textOf(settings[policyFields.find((field) => field in settings) ?? ''], 'queue').toLowerCase()
  const policy = Object.hasOwn(policies, word) ? policies[word] : undefined
  if (policy === undefined) throw new NotApplicable(`at the limit of runs, "${word}" is not known here`)
  return policy
}

function endOf(word: string): string {
  const state = Object.hasOwn(ends, word) ? ends[word as keyof typeof ends] : undefined
  if (state === undefined) throw new NotApplicable(`runs do not end as "${word}" here`)
  return state
}
