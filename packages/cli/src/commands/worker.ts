/**
 * `belfry worker …`: who runs functions now, and a pool of workers on this host. The pool itself is in
 * worker-pool.ts.
 */
import type { Call, Command } from '../command.ts'
import { workerShape } from '../output/shapes.ts'
import { listFlags, pageQuery, printList } from './shared.ts'
import { workerPoolCommand } from './worker-pool.ts'

async function list(call: Call): Promise<undefined> {
  const client = await call.client()
  const empty = 'No workers of functions are alive. Start one: see docs/tutorial/first-function.md'
  await printList(call, client.workers.list(pageQuery(call)), workerShape, empty)
}

export const workerCommands: readonly Command[] = [
  {
    noun: 'worker',
    verb: 'list',
    summary: 'List the workers of functions that are alive',
    details: 'Runs of http jobs are executed by the servers themselves, which are not listed here.',
    flags: listFlags,
    effect: 'read',
    examples: [{ words: 'Who runs functions now', command: 'belfry worker list' }],
    run: list,
  },
  workerPoolCommand,
]
