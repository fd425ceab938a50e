/**
 * `belfry replan …`: zones whose future times were computed again, because newer zone data changed their
 * rules.
 */
import type { Replan } from '@belfry/contract'
import type { Call, Command } from '../command.ts'
import type { Shape } from '../output/printer.ts'
import { timeWithDistance } from '../output/times.ts'
import { listFlags, pageQuery, printList } from './shared.ts'

const replanShape: Shape<Replan> = {
  name: (replan) => replan.id,
  columns: [
    { title: 'ZONE', cell: (replan) => replan.zone, flexible: true },
    { title: 'FROM', cell: (replan) => replan.fromVersion ?? '-' },
    { title: 'TO', cell: (replan) => replan.toVersion },
    { title: 'STATE', cell: stateWords, flexible: true },
    { title: 'DONE', cell: (replan) => `${replan.done}/${replan.total ?? '?'}`, align: 'right' },
    { title: 'MOVED', cell: (replan) => String(replan.moved), align: 'right' },
    { title: 'ASKED FOR', cell: (replan, clock) => timeWithDistance(replan.requestedAt, clock) },
  ],
  fields: () => [],
}

function stateWords({ state, failed, error }: Replan): string {
  return failed === 0 ? state : `${state} (${failed} failed: ${error ?? ''})`
}

async function listReplans(call: Call): Promise<undefined> {
  const empty = 'No zone has had its future times computed again. See what data is used: belfry doctor'
  await printList(call, (await call.client()).replans.list(pageQuery(call)), replanShape, empty)
}

export const replanCommands: readonly Command[] = [
  {
    noun: 'replan',
    verb: 'list',
    summary: 'List zones whose future times were computed again (needs the scope platform)',
    details: 'That happens when a scheduler starts with newer zone data that changes the rules of a zone.',
    flags: listFlags,
    effect: 'read',
    examples: [{ words: 'What the last update of zone data did', command: 'belfry replan list' }],
    run: listReplans,
  },
]
