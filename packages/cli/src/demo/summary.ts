/**
 * The demo's verdict: what was planned (plan.ts) against what Belfry recorded and what the target saw
 * (receiver.ts). Everything is read through the API, as a user would.
 */
import type { Client } from '@belfry/sdk'
import type { DemoPlan, Planned } from './plan.ts'
import type { Call } from './receiver.ts'

interface Line {
  readonly name: string
  readonly due: number
  readonly ran: number
  readonly faults: readonly string[]
}

export interface Verdict {
  readonly ok: boolean
  readonly lines: readonly Line[]
  /** Lateness of every run that started, ms, ascending. */
  readonly lateMs: readonly number[]
}

/** Compares everything due until `endMs`. Reads through the API, as a user would. */
export async function judge(
  client: Client,
  plan: DemoPlan,
  calls: readonly Call[],
  endMs: number,
): Promise<Verdict> {
  const lateMs: number[] = []
  const lines: Line[] = []
  for (const schedule of plan.schedules)
    lines.push(await judgeSchedule(client, schedule, calls, endMs, lateMs))
  for (const { name, runId } of plan.runs) {
    lines.push({ name, due: 1, ...(await judgeRun(client, runId, calls, lateMs)) })
  }
  lateMs.sort((left, right) => left - right)
  return { ok: lines.every((line) => line.faults.length === 0), lines, lateMs }
}

async function judgeSchedule(
  client: Client,
  schedule: Planned,
  calls: readonly Call[],
  endMs: number,
  lateMs: number[],
): Promise<Line> {
  const due = schedule.timesUntil(endMs)
  const faults: string[] = []
  const runIds = new Map<number, string | null>()
  for await (const each of client.schedules.occurrences(schedule.scheduleId)) {
    const at = Date.parse(each.scheduledFor)
    if (runIds.has(at)) faults.push(`${each.scheduledFor} has two occurrences`)
    runIds.set(at, each.runId)
  }
  let ran = 0
  for (const at of due) {
    const runId = runIds.get(at)
    if (typeof runId === 'string') {
      const judged = await judgeRun(client, runId, calls, lateMs)
      ran += judged.ran
      faults.push(...judged.faults)
    } else {
      faults.push(`${new Date(at).toISOString()} did not run`)
    }
  }
  return { name: schedule.name, due: due.length, ran, faults }
}

async function judgeRun(
  client: Client,
  runId: string,
  calls: readonly Call[],
  lateMs: number[],
): Promise<{ ran: number; faults: string[] }> {
  const run = await client.runs.get(runId)
  if (run.lateMs !== null) lateMs.push(run.lateMs)
  const faults: string[] = []
  if (run.state !== 'succeeded') faults.push(`run ${runId} is ${run.state}`)
  const seen = calls.filter((call) => call.runId === runId)
  if (seen.length !== run.attempts)
    faults.push(`run ${runId}: ${run.attempts} attempts, ${seen.length} calls seen`)
  if (new Set(seen.map((call) => call.idempotencyKey)).size > 1)
    faults.push(`run ${runId} came with several keys`)
  return { ran: run.state === 'succeeded' ? 1 : 0, faults }
}

/** Nearest rank: the smallest value that at least `share` of all do not exceed. */
export function percentile(ascending: readonly number[], share: number): number | undefined {
  return ascending[Math.max(0, Math.ceil(ascending.length * share) - 1)]
}

export function summaryTable(verdict: Verdict): string[] {
  const lines = ['', `${'WHAT'.padEnd(10)}  ${'DUE'.padStart(4)}  ${'RAN'.padStart(4)}  VERDICT`]
  for (const line of verdict.lines) {
    const words = line.faults.length === 0 ? 'ok' : line.faults.join('; ')
    lines.push(
      `${line.name.padEnd(10)}  ${String(line.due).padStart(4)}  ${String(line.ran).padStart(4)}  ${words}`,
    )
  }
  const p50 = percentile(verdict.lateMs, 0.5)
  const p99 = percentile(verdict.lateMs, 0.99)
  lines.push('', `Lateness: p50 ${p50 ?? '-'} ms, p99 ${p99 ?? '-'} ms over ${verdict.lateMs.length} runs.`)
  lines.push(verdict.ok ? 'Everything that was due ran.' : 'Not everything that was due ran.')
  return lines
}
