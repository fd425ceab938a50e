/**
 * The steps that commands of workflow runs share: the id and the lists that were given, and the wait for an
 * end.
 */
import type { WorkflowRun } from '@belfry/contract'
import type { Client } from '@belfry/sdk'
import type { Call } from '../command.ts'
import { required } from '../command.ts'
import { exitCodes, UsageError } from '../exit-codes.ts'
import { workflowRunShape } from '../output/workflow-run-shapes.ts'
import { isId } from '../resolve-name.ts'

const lookAgainMs = 500

/** Throws for what is no id. */
export function workflowRunId(call: Call): string {
  const id = required(call, 'run')
  if (!isId(id)) throw new UsageError(`"${id}" is no id of a workflow run; see belfry workflow-run list`)
  return id
}

/** "a,b" as a list; undefined where nothing was given. */
export const listOf = (text: string | undefined): string[] | undefined =>
  text?.split(',').flatMap((each) => (each.trim() === '' ? [] : [each.trim()]))

/** Waits as --timeout says; prints the workflow run and answers the exit code. */
export async function waitForEnd(call: Call, client: Client, id: string): Promise<number | undefined> {
  const ended = await waitFor(client, id, call.flags.durationMs('timeout'))
  call.printer.row(ended, workflowRunShape)
  if (isAlive(ended)) {
    call.printer.say(`The workflow run has not ended in the time given: belfry workflow-run get ${id}`)
    return exitCodes.waitTimedOut
  }
  if (ended.state === 'succeeded') return undefined
  call.printer.say(`The workflow run ended ${ended.state}.`, `Next: belfry workflow-run explain ${id}`)
  return exitCodes.runDidNotSucceed
}

const isAlive = ({ state }: WorkflowRun): boolean => state === 'running' || state === 'pending'

/** The run when it has ended, or as it is when the time is over. */
async function waitFor(client: Client, id: string, limitMs: number | undefined): Promise<WorkflowRun> {
  const untilMs = performance.now() + (limitMs ?? Infinity)
  for (;;) {
    const found = await client.workflowRuns.get(id)
    if (!isAlive(found) || performance.now() >= untilMs) return found
    await new Promise((resolve) => setTimeout(resolve, Math.min(lookAgainMs, untilMs - performance.now())))
  }
}
