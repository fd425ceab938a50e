/**
 * `belfry service-account …`: who programs are. They own keys, and jobs run as them. Accounts go by their
 * names; one is disabled and never deleted.
 */
import type { ServiceAccount } from '@belfry/contract'
import { BelfryError, nearest, serviceAccountRoles } from '@belfry/contract'
import type { Client } from '@belfry/sdk'
import type { Call, Command, FlagSpec } from '../command.ts'
import { required } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { serviceAccountShape } from '../output/access-shapes.ts'
import { isId } from '../resolve-name.ts'
import { given, listFlags, pageQuery, printList, sayChange } from './shared.ts'

const accountArgument = { name: 'account', summary: 'Name or id of the service account' }
const flags: readonly FlagSpec[] = [
  {
    name: 'role',
    value: 'role',
    choices: serviceAccountRoles,
    summary: 'What its keys may do at most: `belfry role list` says what each allows',
  },
  {
    name: 'queue',
    value: 'names',
    repeat: true,
    summary: 'Queues of its workers and of jobs that run as it; `none` for no bound',
  },
  { name: 'description', value: 'text', summary: 'What it is for' },
]
const fieldFlags = {
  '/name': '<name>',
  '/role': '--role',
  '/queues': '--queue',
  '/description': '--description',
}

function roleFromFlag(call: Call): ServiceAccount['role'] | undefined {
  const text = call.flags.text('role')
  return serviceAccountRoles.find((role) => role === text)
}

function queuesFromFlag(call: Call): string[] | null | undefined {
  const named = call.flags.list('queue').flatMap((text) => text.split(','))
  if (named.length === 0) return undefined
  return named.includes('none') ? null : [...new Set(named)]
}

const fields = (call: Call) =>
  given({ queues: queuesFromFlag(call), description: call.flags.text('description') })

async function findAccount(client: Client, nameOrId: string): Promise<ServiceAccount> {
  if (isId(nameOrId)) return client.serviceAccounts.get(nameOrId)
  const [account] = await client.serviceAccounts.list({ name: nameOrId, limit: 1 }).take(1)
  if (account !== undefined) return account
  const known = await client.serviceAccounts.list({ limit: 1000 }).take(1000)
  const near = nearest(
    nameOrId,
    known.map(({ name }) => name),
  )
  const fix = near === undefined ? 'see `belfry service-account list`' : `did you mean ${near}?`
  throw new BelfryError('not_found', `There is no service account "${nameOrId}"; ${fix}`)
}

async function create(call: Call): Promise<undefined> {
  const role = roleFromFlag(call)
  if (role === undefined)
    throw new UsageError(`say what it may do: --role, one of ${serviceAccountRoles.join(', ')}`)
  const body = { name: required(call, 'name'), role, ...fields(call) }
  const account = await (await call.client()).serviceAccounts.create(body, { dryRun: call.dryRun })
  call.printer.row(account, serviceAccountShape)
  // the role bounds the key; of a worker's, the scope of that name is all that it needs
  const scope = role === 'worker' ? role : 'admin'
  const next = `belfry key create ${account.name}-1 --service-account ${account.name} --scope ${scope}`
  sayChange(call, `Made the service account ${account.name}.`, next)
}

async function list(call: Call): Promise<undefined> {
  const client = await call.client()
  const empty = 'No service accounts yet. Make one: belfry service-account create deployer --role developer'
  await printList(call, client.serviceAccounts.list(pageQuery(call)), serviceAccountShape, empty)
}

async function get(call: Call): Promise<undefined> {
  const client = await call.client()
  call.printer.one(await findAccount(client, required(call, 'account')), serviceAccountShape)
}

async function update(call: Call): Promise<undefined> {
  if (call.flags.given(flags.map((flag) => flag.name)).length === 0)
    throw new UsageError('nothing to change: give at least one flag of what should change')
  const client = await call.client()
  const found = await findAccount(client, required(call, 'account'))
  const body = { ...fields(call), ...given({ role: roleFromFlag(call) }) }
  const account = await client.serviceAccounts.update(found.id, body, { dryRun: call.dryRun })
  call.printer.row(account, serviceAccountShape)
  sayChange(
    call,
    `Changed the service account ${account.name}.`,
    `belfry service-account get ${account.name}`,
  )
}

type Said = `${'Disabled' | 'Enabled'} ${string}`
const turn = (disabled: boolean, words: (name: string) => readonly [said: Said, next: string]) =>
  async function turned(call: Call): Promise<undefined> {
    const client = await call.client()
    const found = await findAccount(client, required(call, 'account'))
    const account = await client.serviceAccounts.update(found.id, { disabled }, { dryRun: call.dryRun })
    call.printer.row(account, serviceAccountShape)
    sayChange(call, ...words(account.name))
  }

const disable = turn(true, (name) => [
  `Disabled the service account ${name}: within 5 s its keys do nothing, and runs as it fail.`,
  `belfry service-account enable ${name}`,
])
const enable = turn(false, (name) => [
  `Enabled the service account ${name}.`,
  `belfry service-account get ${name}`,
])

export const serviceAccountCommands: readonly Command[] = [
  {
    noun: 'service-account',
    verb: 'create',
    summary: 'Make a service account: who a program is, and as whom jobs run',
    details: 'Its name is for good. It is disabled and never deleted, so that records keep their meaning.',
    arguments: [{ name: 'name', summary: 'Name of the account: letters, digits, ".", "_", "-"' }],
    flags,
    effect: 'change',
    fieldFlags,
    examples: [
      {
        words: 'For a pipeline that saves jobs',
        command: 'belfry service-account create deployer --role developer',
      },
      {
        words: 'For workers of one queue',
        command: 'belfry service-account create mailer --role worker --queue mail',
      },
    ],
    run: create,
  },
  {
    noun: 'service-account',
    verb: 'list',
    summary: 'List service accounts, also those that are disabled',
    flags: listFlags,
    effect: 'read',
    examples: [{ words: 'All of them', command: 'belfry service-account list --all' }],
    run: list,
  },
  {
    noun: 'service-account',
    verb: 'get',
    summary: 'Show a service account',
    arguments: [accountArgument],
    effect: 'read',
    examples: [{ words: 'One in full', command: 'belfry service-account get deployer' }],
    run: get,
  },
  {
    noun: 'service-account',
    verb: 'update',
    summary: 'Change what a service account may do; it holds within 5 s',
    arguments: [accountArgument],
    flags,
    effect: 'change',
    fieldFlags,
    examples: [
      { words: 'Let it only look', command: 'belfry service-account update deployer --role viewer' },
    ],
    run: update,
  },
  {
    noun: 'service-account',
    verb: 'disable',
    summary: 'Stop all keys of a service account, and all that runs as it',
    arguments: [accountArgument],
    effect: 'change',
    examples: [{ words: 'After a leak', command: 'belfry service-account disable deployer' }],
    run: disable,
  },
  {
    noun: 'service-account',
    verb: 'enable',
    summary: 'Let a disabled service account, and its keys, work again',
    arguments: [accountArgument],
    effect: 'change',
    examples: [{ words: 'It was a false alarm', command: 'belfry service-account enable deployer' }],
    run: enable,
  },
]
