/**
 * `belfry queue …`: what runs next and why, what holds the rest, what it needs of workers, pauses, and the
 * limit of the tenant. Queues go by their names, and are there as soon as something names them.
 */
import type { Call, Command } from '../command.ts'
import { required } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { queueStatsFields } from '../output/cluster-shapes.ts'
import { heldGroupShape, queuedRunShape, queueSummaryShape } from '../output/limit-shapes.ts'
import { wholeOrNone } from './limit-flags.ts'
import { given, sayChange } from './shared.ts'

const queueArgument = { name: 'queue', summary: 'Name of the queue' }

async function list(call: Call): Promise<undefined> {
  const client = await call.client()
  const empty = 'No queues yet. A job makes one: belfry job create report --http URL --queue reports'
  call.printer.list(await client.queues.list(), queueSummaryShape, empty)
}

async function show(call: Call): Promise<undefined> {
  const client = await call.client()
  const limit = call.flags.whole('limit', 1, 200)
  const queue = await client.queues.get(required(call, 'queue'), limit === undefined ? {} : { limit })
  if (call.printer.format !== 'table') {
    call.printer.one(queue, queueSummaryShape)
    return
  }
  call.printer.one(queue, queueSummaryShape)
  call.printer.list({ items: queue.next }, queuedRunShape, 'Nothing is ready here.')
  if (queue.heldGroups.length > 0) call.printer.list({ items: queue.heldGroups }, heldGroupShape, '')
  const [first] = queue.next
  if (first !== undefined) call.printer.say(`The first: ${first.why}`)
}

async function stats(call: Call): Promise<undefined> {
  const client = await call.client()
  const query = given({
    tenants: call.flags.on('all-tenants') ? ('all' as const) : undefined,
    targetStartDelayMs: call.flags.durationMs('target-start-delay'),
    slotsPerWorker: call.flags.whole('slots', 1, 10_000),
    minWorkers: call.flags.whole('min', 0, 10_000),
    maxWorkers: call.flags.whole('max', 0, 10_000),
  })
  const answer = await client.queues.stats(required(call, 'queue'), query)
  call.printer.one(answer, { name: ({ queue }) => queue, columns: [], fields: queueStatsFields })
}

async function pause(call: Call): Promise<undefined> {
  const client = await call.client()
  const name = required(call, 'queue')
  const queue = await client.queues.pause(name, given({ reason: call.flags.text('reason') }), {
    dryRun: call.dryRun,
  })
  call.printer.row(queue, queueSummaryShape)
  sayChange(call, `Paused the queue ${name}; what runs goes on.`, `belfry queue resume ${name}`)
}

async function resume(call: Call): Promise<undefined> {
  const client = await call.client()
  const name = required(call, 'queue')
  const queue = await client.queues.resume(name, { dryRun: call.dryRun })
  call.printer.row(queue, queueSummaryShape)
  sayChange(call, `Resumed the queue ${name}.`, `belfry queue show ${name}`)
}

async function limit(call: Call): Promise<undefined> {
  const client = await call.client()
  const runLimit = wholeOrNone(call, 'runs')
  const words = ({ runLimit: most, used }: { runLimit: number | null; used: number }): string =>
    most === null ? 'no limit' : `${used} of ${most} runs at once`
  const shape = {
    name: () => 'limit',
    columns: [{ title: 'RUNS AT ONCE', cell: words }],
    fields: (state: { runLimit: number | null; used: number }) => [['Runs at once', words(state)] as const],
  }
  if (runLimit === undefined) {
    if (call.dryRun) throw new UsageError('nothing to change: give --runs')
    call.printer.one(await client.queues.limit(), shape)
    return
  }
  const state = await client.queues.setLimit({ runLimit }, { dryRun: call.dryRun })
  call.printer.row(state, shape)
  sayChange(call, `Changed the limit of the tenant: ${words(state)}.`, 'belfry queue limit')
}

export const queueCommands: readonly Command[] = [
  {
    noun: 'queue',
    verb: 'list',
    summary: 'List queues: what is ready, held and running in them',
    effect: 'read',
    examples: [{ words: 'All queues', command: 'belfry queue list' }],
    run: list,
  },
  {
    noun: 'queue',
    verb: 'show',
    summary: 'Show what runs next in a queue, in which order and why, and what holds the rest',
    details:
      'TAG is the place in the fair order, the lowest starts first. AHEAD is how many turns it is from ' +
      'where the queue stands. MOVED is how many places its priority puts it earlier; that shrinks as its ' +
      'turn comes near.',
    arguments: [queueArgument],
    flags: [{ name: 'limit', value: 'count', summary: 'Runs to show, 1 to 200; 20 if left out' }],
    effect: 'read',
    fieldFlags: { '/query/limit': '--limit' },
    examples: [{ words: 'The next 50 runs', command: 'belfry queue show default --limit 50' }],
    run: show,
  },
  {
    noun: 'queue',
    verb: 'stats',
    summary: 'Show how much waits and runs in a queue, and how many workers it needs',
    details:
      'The figures that KEDA, an HPA and `belfry worker pool` scale by. Ages are measured by the clock of ' +
      'the database.',
    arguments: [queueArgument],
    flags: [
      { name: 'all-tenants', summary: 'Count the runs of all tenants (needs the scope platform)' },
      {
        name: 'target-start-delay',
        value: 'duration',
        summary: 'Within which time what waits should start, 1s if left out',
      },
      { name: 'slots', value: 'count', summary: 'Slots of a worker; as they are on average if left out' },
      { name: 'min', value: 'count', summary: 'Least workers, 0 if left out' },
      { name: 'max', value: 'count', summary: 'Most workers, 1000 if left out' },
    ],
    effect: 'read',
    fieldFlags: {
      '/query/tenants': '--all-tenants',
      '/query/targetStartDelayMs': '--target-start-delay',
      '/query/slotsPerWorker': '--slots',
      '/query/minWorkers': '--min',
      '/query/maxWorkers': '--max',
    },
    examples: [
      {
        words: 'How many workers of 20 slots would start everything within two seconds',
        command: 'belfry queue stats default --slots 20 --target-start-delay 2s',
      },
    ],
    run: stats,
  },
  {
    noun: 'queue',
    verb: 'pause',
    summary: 'Start nothing more from a queue, for your tenant; what runs goes on',
    arguments: [queueArgument],
    flags: [{ name: 'reason', value: 'text', summary: 'Why; shown wherever a run is held by it' }],
    effect: 'change',
    fieldFlags: { '/reason': '--reason' },
    examples: [
      {
        words: 'While the target is repaired',
        command: "belfry queue pause mail --reason 'the mail server moves'",
      },
    ],
    run: pause,
  },
  {
    noun: 'queue',
    verb: 'resume',
    summary: 'Go on with a queue',
    arguments: [queueArgument],
    effect: 'change',
    examples: [{ words: 'Go on', command: 'belfry queue resume mail' }],
    run: resume,
  },
  {
    noun: 'queue',
    verb: 'limit',
    summary: 'Show or set how many runs of your tenant there may be at once, in all queues',
    flags: [{ name: 'runs', value: 'count', summary: 'Runs at once, or `none`' }],
    effect: 'change',
    fieldFlags: { '/runLimit': '--runs' },
    examples: [
      { words: 'How it stands', command: 'belfry queue limit' },
      { words: 'At most 50', command: 'belfry queue limit --runs 50' },
    ],
    run: limit,
  },
]
