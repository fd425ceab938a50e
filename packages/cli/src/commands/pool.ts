/**
 * `belfry pool …`: limits that several jobs share, by slots, by a rate, or by the host that they call. Pools
 * go by their names.
 */
import type { Pool } from '@belfry/contract'
import { BelfryError, nearest } from '@belfry/contract'
import type { Client } from '@belfry/sdk'
import type { Call, Command, FlagSpec } from '../command.ts'
import { required } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { poolShape } from '../output/limit-shapes.ts'
import { isId } from '../resolve-name.ts'
import { rateFromFlag, textOrNone, wholeOrNone } from './limit-flags.ts'
import { given, listFlags, pageQuery, printList, sayChange } from './shared.ts'

const poolArgument = { name: 'pool', summary: 'Name or id of the pool' }

const poolFlags: readonly FlagSpec[] = [
  {
    name: 'slots',
    value: 'count',
    summary: 'Weights of the runs at once, in all; 0 lets nothing in; or `none`',
  },
  {
    name: 'rate',
    value: 'count/time[,burst]',
    summary: 'Starts in a stretch of time, such as 100/1m or 10/1s,50; or `none`',
  },
  {
    name: 'host',
    value: 'host',
    summary: 'HTTP jobs that call this host belong to the pool by themselves; or `none`',
  },
]

const fieldFlags: Readonly<Record<string, string>> = {
  '/name': '<name>',
  '/slots': '--slots',
  '/rate': '--rate',
  '/rate/count': '--rate',
  '/rate/perMs': '--rate',
  '/rate/burst': '--rate',
  '/host': '--host',
}

const fields = (call: Call) =>
  given({
    slots: wholeOrNone(call, 'slots', 0),
    rate: call.flags.text('rate') === 'none' ? null : rateFromFlag(call),
    host: textOrNone(call, 'host'),
  })

async function findPool(client: Client, nameOrId: string): Promise<Pool> {
  if (isId(nameOrId)) return client.pools.get(nameOrId)
  const [pool] = await client.pools.list({ name: nameOrId, limit: 1 }).take(1)
  if (pool !== undefined) return pool
  const known = await client.pools.list({ limit: 1000 }).take(1000)
  const near = nearest(
    nameOrId,
    known.map(({ name }) => name),
  )
  const fix = near === undefined ? 'see `belfry pool list`' : `did you mean ${near}?`
  throw new BelfryError('not_found', `There is no pool "${nameOrId}"; ${fix}`)
}

async function create(call: Call): Promise<undefined> {
  const client = await call.client()
  const body = { name: required(call, 'name'), ...fields(call) }
  const pool = await client.pools.create(body, { dryRun: call.dryRun })
  call.printer.row(pool, poolShape)
  sayChange(call, `Created the pool ${pool.name}.`, `belfry job update JOB --pool ${pool.name}`)
}

async function list(call: Call): Promise<undefined> {
  const client = await call.client()
  const empty = 'No pools yet. Make one: belfry pool create api --slots 10 --host api.example.com'
  await printList(call, client.pools.list(pageQuery(call)), poolShape, empty)
}

async function get(call: Call): Promise<undefined> {
  const client = await call.client()
  call.printer.one(await findPool(client, required(call, 'pool')), poolShape)
}

async function update(call: Call): Promise<undefined> {
  if (call.flags.given(poolFlags.map((flag) => flag.name)).length === 0)
    throw new UsageError('nothing to change: give at least one flag of what should change')
  const client = await call.client()
  const found = await findPool(client, required(call, 'pool'))
  const pool = await client.pools.update(found.id, fields(call), { dryRun: call.dryRun })
  call.printer.row(pool, poolShape)
  sayChange(call, `Changed the pool ${pool.name}.`, `belfry pool get ${pool.name}`)
}

async function remove(call: Call): Promise<undefined> {
  const client = await call.client()
  const pool = await findPool(client, required(call, 'pool'))
  await client.pools.delete(pool.id, { dryRun: call.dryRun })
  sayChange(call, `Deleted the pool ${pool.name}.`, 'belfry pool list')
}

export const poolCommands: readonly Command[] = [
  {
    noun: 'pool',
    verb: 'create',
    summary: 'Make a pool: a limit that several jobs share',
    arguments: [{ name: 'name', summary: 'Name of the pool: letters, digits, ".", "_", "-"' }],
    flags: poolFlags,
    effect: 'change',
    fieldFlags,
    examples: [
      {
        words: 'Ten slots for jobs that name the pool',
        command: 'belfry pool create database --slots 10',
      },
      {
        words: 'At most 20 calls a second to one host, whichever job makes them',
        command: 'belfry pool create partner-api --host api.example.com --rate 20/1s',
      },
    ],
    run: create,
  },
  {
    noun: 'pool',
    verb: 'list',
    summary: 'List pools, and how much of them is taken',
    flags: listFlags,
    effect: 'read',
    examples: [{ words: 'All pools', command: 'belfry pool list --all' }],
    run: list,
  },
  {
    noun: 'pool',
    verb: 'get',
    summary: 'Show a pool',
    arguments: [poolArgument],
    effect: 'read',
    examples: [{ words: 'One pool in full', command: 'belfry pool get database' }],
    run: get,
  },
  {
    noun: 'pool',
    verb: 'update',
    summary: 'Change a pool; it holds from now on, by itself',
    arguments: [poolArgument],
    flags: poolFlags,
    effect: 'change',
    fieldFlags,
    examples: [{ words: 'More room', command: 'belfry pool update database --slots 20' }],
    run: update,
  },
  {
    noun: 'pool',
    verb: 'delete',
    summary: 'Delete a pool that no job names',
    arguments: [poolArgument],
    effect: 'change',
    examples: [{ words: 'See first whether it can be', command: 'belfry pool delete database --dry-run' }],
    run: remove,
  },
]
