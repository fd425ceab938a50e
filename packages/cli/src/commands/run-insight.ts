/**
 * `belfry run explain` and `belfry run wait`: why a run is where it is, and when it has ended. The sentences
 * of an explanation are the server's.
 */
import type { Run, RunExplanation } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import type { Client } from '@belfry/sdk'
import type { Call, Command } from '../command.ts'
import { required } from '../command.ts'
import { exitCodes } from '../exit-codes.ts'
import { toneOf } from '../output/paint.ts'
import { runShape } from '../output/shapes.ts'
import { plain } from '../output/text.ts'
import { timeWithDistance } from '../output/times.ts'
import { runId } from '../resolve-name.ts'
import { waitAndPrint, whyNot } from './shared.ts'

const runArgument = { name: 'run', summary: 'Id of the run' }
/** Runs that are waited for at a time: each holds a request. */
const waitsAtOnce = 16

async function explain(call: Call): Promise<undefined> {
  const client = await call.client()
  const explanation = await client.runs.explain(runId(required(call, 'run')))
  if (call.printer.format === 'name') call.printer.value(explanation, [explanation.verdict])
  else call.printer.value(explanation, explanationLines(call, explanation))
  return undefined
}

function explanationLines(call: Call, explanation: RunExplanation): string[] {
  const { paint, clock } = call.printer
  const { runId: id, job, state, reason, verdict, message, fix, since, clearsAt } = explanation
  const tone = toneOf(state)
  const named = reason === null ? state : `${state} (${reason})`
  const times = [
    ...(since === null ? [] : [[verdict === 'ended' ? 'Ended' : 'Since', since] as const]),
    ...(clearsAt === null
      ? []
      : [[verdict === 'running' ? 'At most until' : 'May clear', clearsAt] as const]),
  ]
  return [
    `${paint(plain(job), 'strong')} ${id}: ${tone === undefined ? named : paint(named, tone)}`,
    plain(message),
    ...(fix === null ? [] : [`To do: ${plain(fix)}`]),
    ...times.map(([label, at]) => paint(`${label} ${timeWithDistance(at, clock)}`, 'faint')),
  ]
}

async function wait(call: Call): Promise<number> {
  const ids = call.many('run').map(runId)
  const client = await call.client()
  const [only, ...others] = ids
  if (only !== undefined && others.length === 0) return waitAndPrint(call, client, only)
  return waitForAll(call, client, [...new Set(ids)])
}

/**
 * All at the same time, within one time limit; told in the order in which they end, printed in the order in
 * which they were named.
 */
async function waitForAll(call: Call, client: Client, ids: readonly string[]): Promise<number> {
  const limitMs = call.flags.durationMs('timeout')
  const startedMs = performance.now()
  const ended = new Map<string, Run>()
  let late: BelfryError | undefined
  const waiting = ids.values()
  const waitOn = async (): Promise<void> => {
    for (const id of waiting) {
      const timeoutMs =
        limitMs === undefined ? undefined : Math.max(0, limitMs - (performance.now() - startedMs))
      try {
        const run = await client.waitForRun(id, { timeoutMs })
        ended.set(id, run)
        call.printer.say(`Run ${id}: ${run.state} (${ended.size} of ${ids.length})`)
      } catch (error) {
        if (!(error instanceof BelfryError) || error.code !== 'wait_timeout') throw error
        late = error
      }
    }
  }
  await Promise.all(Array.from({ length: waitsAtOnce }, waitOn))
  const runs = ids.flatMap((id) => ended.get(id) ?? [])
  call.printer.list({ items: runs }, runShape, 'None of them has ended.')
  if (late !== undefined) {
    const left = ids.length - runs.length
    throw new BelfryError('wait_timeout', `${left} of ${ids.length} runs have not ended; wait longer.`)
  }
  const bad = runs.filter(({ state }) => state !== 'succeeded')
  for (const run of bad) call.printer.say(`Run ${run.id}:`, ...whyNot(run))
  return bad.length === 0 ? exitCodes.ok : exitCodes.runDidNotSucceed
}

export const runInsightCommands: readonly Command[] = [
  {
    noun: 'run',
    verb: 'explain',
    summary: 'Say what holds a run back now and when it may clear, or why it ended as it did',
    details: 'The first check that holds it, since when, and what can be done about it.',
    arguments: [runArgument],
    effect: 'read',
    examples: [
      {
        words: 'Why does it not start',
        command: 'belfry run explain 019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f',
      },
    ],
    run: explain,
  },
  {
    noun: 'run',
    verb: 'wait',
    summary: 'Wait until a run has ended, or several',
    details: 'Exit code 0 if all succeeded, 5 if one did not, 6 if the time ran out.',
    arguments: [{ ...runArgument, summary: 'Id of the run; of several, one after the other', many: true }],
    flags: [
      { name: 'timeout', value: 'duration', summary: 'Longest wait, such as 60s; no limit if left out' },
    ],
    effect: 'read',
    examples: [
      {
        words: 'At most a minute',
        command: 'belfry run wait 019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f --timeout 60s',
      },
    ],
    run: wait,
  },
]
