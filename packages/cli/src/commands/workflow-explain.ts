/**
 * `belfry workflow-run explain`: why a workflow run, or a task of it, is where it is. The sentences are the
 * server's.
 */
import type { WorkflowRunExplanation } from '@belfry/contract'
import type { Call, Command } from '../command.ts'
import { toneOf } from '../output/paint.ts'
import { plain } from '../output/text.ts'
import { timeWithDistance } from '../output/times.ts'
import { given } from './shared.ts'
import { workflowRunId } from './workflow-run-wait.ts'

const run = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'

async function explain(call: Call): Promise<undefined> {
  const id = workflowRunId(call)
  const client = await call.client()
  const explanation = await client.workflowRuns.explain(id, given({ task: call.flags.text('task') }))
  if (call.printer.format === 'name') call.printer.value(explanation, [explanation.verdict])
  else call.printer.value(explanation, explanationLines(call, explanation))
  return undefined
}

function explanationLines(call: Call, explanation: WorkflowRunExplanation): string[] {
  const { paint, clock } = call.printer
  const { workflow, workflowRunId: id, state, task, taskState, message, fix, since, clearsAt } = explanation
  const toned = (word: string): string => {
    const tone = toneOf(word)
    return tone === undefined ? word : paint(word, tone)
  }
  const { causes, needs, needsTotal } = explanation
  const named = task === null || taskState === null ? [] : [`Task ${plain(task)}: ${toned(taskState)}`]
  const path = causes.length > 1 ? [`Because of: ${causes.map(plain).join(' ← ')}`] : []
  const more = needsTotal > needs.length ? ` and ${needsTotal - needs.length} more` : ''
  const parents =
    needs.length === 0
      ? []
      : [`Needs: ${needs.map((each) => `${plain(each.id)} (${each.state})`).join(', ')}${more}`]
  const times = [
    ...(since === null ? [] : [['Since', since] as const]),
    ...(clearsAt === null ? [] : [['May clear', clearsAt] as const]),
  ]
  return [
    `${paint(plain(workflow), 'strong')} ${id}: ${toned(state)}`,
    ...named,
    plain(message),
    ...(fix === null ? [] : [`To do: ${plain(fix)}`]),
    ...path,
    ...parents,
    ...times.map(([label, at]) => paint(`${label} ${timeWithDistance(at, clock)}`, 'faint')),
  ]
}

export const workflowExplainCommands: readonly Command[] = [
  {
    noun: 'workflow-run',
    verb: 'explain',
    summary: 'Say what holds a workflow run or a task of it now, or why it ended as it did',
    details: 'The first cause, since when, and what can be done about it.',
    arguments: [{ name: 'run', summary: 'Id of the workflow run' }],
    flags: [{ name: 'task', value: 'id', summary: 'Of this task' }],
    effect: 'read',
    fieldFlags: { '/params/id': '<run>', '/query/task': '--task' },
    examples: [
      { words: 'Why does it not go on', command: `belfry workflow-run explain ${run}` },
      { words: 'Why did a task not run', command: `belfry workflow-run explain ${run} --task load` },
    ],
    run: explain,
  },
]
