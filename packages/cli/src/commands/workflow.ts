/**
 * `belfry workflow`: what can be said of workflows without a server. The rules are loaded only when a command
 * needs them.
 */
import type { Call, Command } from '../command.ts'
import { answerWorkflowBatch } from './workflow-cases.ts'

async function simulate(call: Call): Promise<undefined> {
  const rules = await import('@belfry/server/workflow')
  answerWorkflowBatch((await call.flags.file('batch')) ?? '', rules, call.io.stdout)
  return undefined
}

export const workflowCommands: readonly Command[] = [
  {
    noun: 'workflow',
    verb: 'simulate',
    summary: 'Play workflow runs with given outcomes, without a server',
    details:
      'Decides by the same rules as the engine. The file holds graphs and the outcome of each attempt; one ' +
      'JSON line comes out for each case.',
    effect: 'local',
    flags: [{ name: 'batch', value: 'file', summary: 'File with the cases, `-` for standard input' }],
    examples: [{ words: 'Every case of a file', command: 'belfry workflow simulate --batch cases.json' }],
    run: simulate,
  },
]
