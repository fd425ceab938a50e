/**
 * `belfry workflow-run approvals|approve|reject|signal`: what people and scripts say to tasks that wait. What
 * becomes of a task by it is the answer; what follows is seen by `workflow-run tasks`.
 */
import type { WorkflowDecision } from '@belfry/contract'
import { maxForEachItems } from '@belfry/contract'
import type { BodyOf } from '@belfry/sdk'
import type { Call, Command, FlagSpec } from '../command.ts'
import { required } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { decisionShape, openApprovalShape } from '../output/workflow-decision-shapes.ts'
import { workflowRunShape } from '../output/workflow-run-shapes.ts'
import { given, listFlags, pageQuery, printList, sayChange } from './shared.ts'
import { workflowRunId } from './workflow-run-wait.ts'

const run = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'
const runArgument = { name: 'run', summary: 'Id of the workflow run' }
const taskArgument = { name: 'task', summary: 'Id of the task' }
const itemFlag: FlagSpec = {
  name: 'item',
  value: 'number',
  summary: 'Of a task that runs for each item: which one, from 0',
}
const reasonFlag: FlagSpec = { name: 'reason', value: 'words', summary: 'Why; it stays with the task' }

async function approvals(call: Call): Promise<undefined> {
  const client = await call.client()
  const empty = 'Nothing waits for an approval.'
  await printList(call, client.workflowRuns.approvals(pageQuery(call)), openApprovalShape, empty)
}

async function approve(call: Call): Promise<undefined> {
  const id = workflowRunId(call)
  const body = { ...placeOf(call), ...given({ reason: call.flags.text('reason') }) }
  const client = await call.client()
  const decision = await client.workflowRuns.approve(id, body, { dryRun: call.dryRun })
  show(call, decision, `Approved ${body.task}`)
}

async function reject(call: Call): Promise<undefined> {
  const id = workflowRunId(call)
  const reason = call.flags.text('reason')
  if (reason === undefined) throw new UsageError('say why, for who looks at it later: --reason "…"')
  const client = await call.client()
  const body = { ...placeOf(call), reason }
  show(call, await client.workflowRuns.reject(id, body, { dryRun: call.dryRun }), `Rejected ${body.task}`)
}

const placeOf = (call: Call) => ({
  task: required(call, 'task'),
  ...given({ item: call.flags.whole('item', 0, maxForEachItems - 1) }),
})

function show(call: Call, decision: WorkflowDecision, what: `${'Approved' | 'Rejected'} ${string}`): void {
  call.printer.row(decision, decisionShape)
  sayChange(
    call,
    `${what}; the task ends ${decision.state}.`,
    `belfry workflow-run tasks ${decision.workflowRunId}`,
  )
}

async function signal(call: Call): Promise<undefined> {
  const id = workflowRunId(call)
  const name = required(call, 'signal')
  const payload = (await call.flags.json('payload')) as BodyOf<'workflowRunSignal'>['payload']
  const client = await call.client()
  const body = { signal: name, ...given({ payload }) }
  const found = await client.workflowRuns.signal(id, body, { dryRun: call.dryRun })
  call.printer.row(found, workflowRunShape)
  sayChange(call, `Sent the signal ${name}.`, `belfry workflow-run tasks ${id}`)
}

export const workflowDecisionCommands: readonly Command[] = [
  {
    noun: 'workflow-run',
    verb: 'approvals',
    summary: 'List tasks that wait for an approval, newest first',
    flags: listFlags,
    effect: 'read',
    examples: [{ words: 'All that wait', command: 'belfry workflow-run approvals' }],
    run: approvals,
  },
  {
    noun: 'workflow-run',
    verb: 'approve',
    summary: 'Approve a task that waits for it',
    arguments: [runArgument, taskArgument],
    flags: [itemFlag, reasonFlag],
    effect: 'change',
    fieldFlags: { '/task': '<task>', '/item': '--item', '/reason': '--reason' },
    examples: [
      { words: 'With a word', command: `belfry workflow-run approve ${run} ship --reason 'looks good'` },
    ],
    run: approve,
  },
  {
    noun: 'workflow-run',
    verb: 'reject',
    summary: 'Reject a task that waits for an approval',
    details: 'How the task ends then, failed or skipped, its workflow says (approval.onReject).',
    arguments: [runArgument, taskArgument],
    flags: [itemFlag, reasonFlag],
    effect: 'change',
    fieldFlags: { '/task': '<task>', '/item': '--item', '/reason': '--reason' },
    examples: [
      {
        words: 'With the reason',
        command: `belfry workflow-run reject ${run} ship --reason 'not on Friday'`,
      },
    ],
    run: reject,
  },
  {
    noun: 'workflow-run',
    verb: 'signal',
    summary: 'Send a signal to a workflow run, also before a task waits for it',
    arguments: [runArgument, { name: 'signal', summary: 'Name of the signal' }],
    flags: [
      {
        name: 'payload',
        value: 'json',
        summary: 'Output of what waits for it: JSON, @file, or @- for stdin',
      },
    ],
    effect: 'change',
    fieldFlags: { '/signal': '<signal>', '/payload': '--payload' },
    examples: [
      {
        words: 'With a payload',
        command: `belfry workflow-run signal ${run} paid --payload '{"amount": 5}'`,
      },
    ],
    run: signal,
  },
]
