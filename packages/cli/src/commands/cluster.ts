/**
 * `belfry cluster …`: the processes of the installation, who leads which shards, what is late and what is
 * wrong.
 */
import type { Call, Command } from '../command.ts'
import { exitCodes } from '../exit-codes.ts'
import { clusterFields, clusterNodeShape } from '../output/cluster-shapes.ts'

async function status(call: Call): Promise<number | undefined> {
  const cluster = await (await call.client()).cluster()
  const exitCode = call.flags.on('check') && cluster.state !== 'ok' ? exitCodes.failed : undefined
  if (call.printer.format !== 'table') {
    if (call.printer.format === 'name') call.printer.list({ items: cluster.nodes }, clusterNodeShape, '')
    else call.printer.value(cluster, [])
    return exitCode
  }
  const shape = { name: () => 'cluster', columns: [], fields: clusterFields }
  call.printer.one(cluster, shape)
  call.printer.list({ items: cluster.nodes }, clusterNodeShape, 'No process is on record.')
  return exitCode
}

export const clusterCommands: readonly Command[] = [
  {
    noun: 'cluster',
    verb: 'status',
    isDefault: true,
    summary: 'Show processes, shards and terms, lag, clock skew, versions, and what is wrong',
    details:
      'Needs the scope platform. LAG is the largest lateness of what a scheduler fired in the last minute. ' +
      'SKEW is its clock minus that of the database. All lengths of time are by the clock of the database.',
    flags: [{ name: 'check', summary: 'Exit with 1 unless everything is as it should be' }],
    effect: 'read',
    examples: [
      { words: 'How it stands', command: 'belfry cluster status' },
      { words: 'In a script', command: 'belfry cluster status --check -o json' },
    ],
    run: status,
  },
]
