/**
 * The lines of the demo's live account: one for each run that ended, with what Belfry says of it and what the
 * target saw. Read by people only; the verdict is in summary.ts.
 */
import type { RunSummary } from '@belfry/contract'
import type { Call } from './receiver.ts'

const columns = { name: 10, planned: 12, started: 12, late: 8, outcome: 10, attempts: 8 } as const

function row(cells: Record<keyof typeof columns, string>, rest: string): string {
  const padded = Object.entries(columns).map(([key, width]) =>
    cells[key as keyof typeof columns].padEnd(width),
  )
  return `${padded.join('  ')}  ${rest}`
}

export function accountHeader(): string {
  const cells = {
    name: 'WHAT',
    planned: 'PLANNED',
    started: 'STARTED',
    late: 'LATE',
    outcome: 'OUTCOME',
    attempts: 'ATTEMPTS',
  }
  return row(cells, 'IDEMPOTENCY KEY SEEN BY THE TARGET')
}

/** Time of day with milliseconds, UTC. */
function clockTime(instant: string | null): string {
  return instant === null ? '-' : instant.slice(11, 23)
}

export function accountLine(name: string, run: RunSummary, calls: readonly Call[]): string {
  const seen = [...new Set(calls.filter((call) => call.runId === run.id).map((call) => call.idempotencyKey))]
  const cells = {
    name,
    planned: clockTime(run.dueAt),
    started: clockTime(run.startedAt),
    late: run.lateMs === null ? '-' : `${run.lateMs} ms`,
    outcome: run.state,
    attempts: String(run.attempts),
  }
  return row(cells, seen.length === 0 ? 'none' : seen.join(' '))
}
