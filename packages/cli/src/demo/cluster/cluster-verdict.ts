/**
 * Whether the cluster lost anything: what was planned (cluster-plan.ts) against what Belfry recorded and what
 * the target saw (receiver.ts). A run may be called again where its worker died; it is called with the same
 * key, and no more often than it was begun.
 */
import type { Client } from '@belfry/sdk'
import { percentile } from '../summary.ts'
import type { Planned } from '../plan.ts'
import type { Call } from '../receiver.ts'
import type { ClusterPlan } from './cluster-plan.ts'

export interface ClusterVerdict {
  readonly ok: boolean
  readonly lines: readonly Line[]
  /** Runs that were called more than once. */
  readonly calledAgain: number
  /** Lateness of every first call, ms, ascending. */
  readonly lateMs: readonly number[]
}

interface Line {
  readonly name: string
  readonly due: number
  readonly ran: number
  readonly faults: readonly string[]
}

const runsAtOnce = 8

/** Compares everything due until `endMs`, and all workflow runs. */
export async function judgeCluster(
  client: Client,
  asked: { readonly plan: ClusterPlan; readonly workflowRunIds: readonly string[] },
  calls: readonly Call[],
  endMs: number,
): Promise<ClusterVerdict> {
  const byRun = Map.groupBy(calls, (call) => call.runId)
  const judged = await inTurns(asked.plan.schedules, (schedule) =>
    judgeSchedule(client, schedule, byRun, endMs),
  )
  const lines = [...Map.groupBy(judged, ({ name }) => name)].map(([name, some]) => sumLines(name, some))
  lines.push(await judgeWorkflows(client, asked.workflowRunIds, byRun))
  return {
    ok: lines.every(({ faults }) => faults.length === 0),
    lines,
    calledAgain: [...byRun.values()].filter((some) => some.length > 1).length,
    lateMs: latenessOf(byRun),
  }
}

const sumLines = (name: string, lines: readonly Line[]): Line => ({
  name,
  due: lines.reduce((sum, { due }) => sum + due, 0),
  ran: lines.reduce((sum, { ran }) => sum + ran, 0),
  faults: lines.flatMap(({ faults }) => faults),
})

type CallsByRun = ReadonlyMap<string, readonly Call[]>

async function judgeSchedule(
  client: Client,
  schedule: Planned,
  byRun: CallsByRun,
  endMs: number,
): Promise<Line> {
  const due = schedule.timesUntil(endMs)
  const faults: string[] = []
  const runIds = new Map<number, string | null>()
  for await (const { scheduledFor, runId } of client.schedules.occurrences(schedule.scheduleId)) {
    const at = Date.parse(scheduledFor)
    if (runIds.has(at)) faults.push(`${scheduledFor} has two occurrences`)
    runIds.set(at, runId)
  }
  const runs = await inTurns(due, async (at): Promise<readonly string[]> => {
    const runId = runIds.get(at)
    return typeof runId === 'string' ? judgeRun(client, runId, byRun) : [`${iso(at)} did not run`]
  })
  const ran = runs.filter((of) => of.length === 0).length
  return { name: schedule.name, due: due.length, ran, faults: [...faults, ...runs.flat()] }
}

async function judgeRun(client: Client, runId: string, byRun: CallsByRun): Promise<readonly string[]> {
  const { state, attempts } = await client.runs.get(runId)
  const seen = byRun.get(runId) ?? []
  const faults: string[] = []
  if (state !== 'succeeded') faults.push(`run ${runId} is ${state}`)
  if (seen.length === 0) faults.push(`run ${runId} never came to the target`)
  if (seen.length > attempts)
    faults.push(`run ${runId} was begun ${attempts} times and called ${seen.length}`)
  if (new Set(seen.map(({ idempotencyKey }) => idempotencyKey)).size > 1)
    faults.push(`run ${runId} came with several keys`)
  return faults
}

/** Each task ran, and no sooner than those before it. */
async function judgeWorkflows(client: Client, ids: readonly string[], byRun: CallsByRun): Promise<Line> {
  const judged = await inTurns(ids, async (id): Promise<readonly string[]> => {
    const { state } = await client.workflowRuns.get(id)
    if (state !== 'succeeded') return [`workflow run ${id} is ${state}`]
    const { tasks } = await client.workflowRuns.tasks(id)
    const firstCallMs = (name: string): number => {
      const runId = tasks.find((task) => task.id === name)?.runId ?? ''
      return byRun.get(runId)?.[0]?.atMs ?? Number.NaN
    }
    const [begin, left, right, join] = ['begin', 'left', 'right', 'join'].map(firstCallMs)
    const inOrder =
      begin !== undefined &&
      left !== undefined &&
      right !== undefined &&
      join !== undefined &&
      begin <= Math.min(left, right) &&
      join >= Math.max(left, right)
    return inOrder ? [] : [`workflow run ${id} did not run its tasks in order`]
  })
  const ran = judged.filter((faults) => faults.length === 0).length
  return { name: 'workflow', due: ids.length, ran, faults: judged.flat() }
}

function latenessOf(byRun: CallsByRun): readonly number[] {
  const late = [...byRun.values()].flatMap(([first]) =>
    first === undefined || first.plannedMs === null ? [] : [Math.max(0, first.atMs - first.plannedMs)],
  )
  return late.toSorted((left, right) => left - right)
}

async function inTurns<Item, Answer>(
  items: readonly Item[],
  work: (item: Item) => Promise<Answer>,
): Promise<Answer[]> {
  const answers: Answer[] = []
  for (let at = 0; at < items.length; at += runsAtOnce) {
    answers.push(...(await Promise.all(items.slice(at, at + runsAtOnce).map(work))))
  }
  return answers
}

const iso = (ms: number): string => new Date(ms).toISOString()

const shownFaults = 3

export function clusterSummary(verdict: ClusterVerdict): string[] {
  const cell = (text: string | number, width: number): string => String(text).padStart(width)
  const lines = ['', `${'WHAT'.padEnd(14)}${cell('DUE', 6)}${cell('RAN', 6)}  VERDICT`]
  for (const { name, due, ran, faults } of verdict.lines) {
    const more = faults.length > shownFaults ? `; and ${faults.length - shownFaults} more` : ''
    const words = faults.length === 0 ? 'ok' : faults.slice(0, shownFaults).join('; ') + more
    lines.push(`${name.padEnd(14)}${cell(due, 6)}${cell(ran, 6)}  ${words}`)
  }
  const { lateMs, calledAgain } = verdict
  const late = (share: number): string => `${percentile(lateMs, share) ?? '-'} ms`
  lines.push('', `Lateness: half ${late(0.5)} or less, 99 of 100 ${late(0.99)}, the worst ${late(1)}.`)
  const again = 'called again because a worker was killed, with the same key (at least once)'
  const which = calledAgain === 1 ? '1 run was' : `${calledAgain} runs were`
  lines.push(calledAgain === 0 ? 'No run was called twice.' : `${which} ${again}.`)
  lines.push(verdict.ok ? 'Nothing was lost.' : 'Not everything that was due ran as it should.')
  return lines
}
