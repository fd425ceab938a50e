/**
 * `belfry member …`: the people of a tenant. They are named by their e-mail address, which is theirs alone in
 * the tenant, or by id; the invitation of a new one is data and is shown this once.
 */
import type { Member } from '@belfry/contract'
import { BelfryError, memberRoles, nearest } from '@belfry/contract'
import type { Client } from '@belfry/sdk'
import type { Call, Command, FlagSpec } from '../command.ts'
import { required } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { invitedShape, memberShape } from '../output/member-shapes.ts'
import { isId } from '../resolve-name.ts'
import { given, listFlags, pageQuery, printList, sayChange } from './shared.ts'

const memberArgument = { name: 'member', summary: 'E-mail address or id of the member' }
const roleFlag: FlagSpec = {
  name: 'role',
  value: 'role',
  choices: memberRoles,
  summary: 'What the member may do; nobody gives a role that may do more than his own',
}

/** By e-mail address or id; the API lists members without a filter. */
export async function findMember(client: Client, addressOrId: string): Promise<Member> {
  if (isId(addressOrId)) return client.members.get(addressOrId)
  const known: string[] = []
  for await (const member of client.members.list({ limit: 1000 })) {
    if (member.email === addressOrId.toLowerCase()) return member
    known.push(member.email)
  }
  const near = nearest(addressOrId, known)
  const fix = near === undefined ? 'see `belfry member list`' : `did you mean ${near}?`
  throw new BelfryError('not_found', `There is no member "${addressOrId}"; ${fix}`)
}

function roleOf(call: Call): Member['role'] | undefined {
  return memberRoles.find((role) => role === call.flags.text('role'))
}

const nextAfterInvite = (email: string): string =>
  `give the invitation to ${email}, who types: belfry join --invite-file FILE --password-file -`

async function inviteMember(call: Call): Promise<undefined> {
  const email = required(call, 'email')
  const role = roleOf(call)
  if (role === undefined)
    throw new UsageError(`say what the member may do: --role, one of ${memberRoles.join(', ')}`)
  const body = { email, role, ...given({ name: call.flags.text('name'), tenant: call.flags.text('tenant') }) }
  const member = await (await call.client()).members.invite(body, { dryRun: call.dryRun })
  call.printer.one(member, invitedShape)
  sayChange(
    call,
    `Made an invitation for ${member.email}, good for seven days.`,
    nextAfterInvite(member.email),
  )
}

async function inviteAgain(call: Call): Promise<undefined> {
  const client = await call.client()
  const found = await findMember(client, required(call, 'member'))
  const member = await client.members.inviteAgain(found.id, { dryRun: call.dryRun })
  call.printer.one(member, invitedShape)
  sayChange(
    call,
    `Made a new invitation for ${member.email}; the one before is void.`,
    nextAfterInvite(member.email),
  )
}

async function listMembers(call: Call): Promise<undefined> {
  const empty = 'No members yet. Invite one: belfry member invite ada@example.com --role operator'
  await printList(call, (await call.client()).members.list(pageQuery(call)), memberShape, empty)
}

async function getMember(call: Call): Promise<undefined> {
  call.printer.one(await findMember(await call.client(), required(call, 'member')), memberShape)
}

async function updateMember(call: Call): Promise<undefined> {
  const client = await call.client()
  const change = given({ role: roleOf(call), name: call.flags.text('name') })
  if (Object.keys(change).length === 0) throw new UsageError('say what changes: --role or --name')
  const found = await findMember(client, required(call, 'member'))
  const member = await client.members.update(found.id, change, { dryRun: call.dryRun })
  call.printer.row(member, memberShape)
  sayChange(
    call,
    `Changed ${member.email}; it holds within five seconds.`,
    `belfry member get ${member.email}`,
  )
}

const setState = (state: 'active' | 'disabled') =>
  async function changeState(call: Call): Promise<undefined> {
    const client = await call.client()
    const found = await findMember(client, required(call, 'member'))
    const member = await client.members.update(found.id, { state }, { dryRun: call.dryRun })
    call.printer.row(member, memberShape)
    const what = state === 'active' ? 'may sign in again' : 'has no session and no key any more'
    sayChange(call, `Set ${member.email} to ${state}; the member ${what}.`, 'belfry member list')
  }

async function removeMember(call: Call): Promise<undefined> {
  const client = await call.client()
  const found = await findMember(client, required(call, 'member'))
  await client.members.delete(found.id, { dryRun: call.dryRun })
  sayChange(call, `Deleted the member ${found.email} with all sessions.`, 'belfry member list')
}

export const memberCommands: readonly Command[] = [
  {
    noun: 'member',
    verb: 'invite',
    summary: 'Invite a person; the invitation is shown once',
    arguments: [{ name: 'email', summary: 'E-mail address' }],
    flags: [
      roleFlag,
      { name: 'name', value: 'name', summary: 'What the person is called' },
      { name: 'tenant', value: 'name', summary: 'Into another tenant (needs a key with the scope platform)' },
    ],
    effect: 'change',
    fieldFlags: { '/email': '<email>', '/role': '--role', '/name': '--name', '/tenant': '--tenant' },
    examples: [
      {
        words: 'Somebody who keeps things running',
        command: 'belfry member invite ada@example.com --role operator',
      },
      {
        words: 'The first owner of a new tenant',
        command: 'belfry member invite ada@example.com --role owner --tenant billing',
      },
    ],
    run: inviteMember,
  },
  {
    noun: 'member',
    verb: 'list',
    summary: 'List members',
    flags: listFlags,
    effect: 'read',
    examples: [{ words: 'All members', command: 'belfry member list --all' }],
    run: listMembers,
  },
  {
    noun: 'member',
    verb: 'get',
    summary: 'Show a member',
    arguments: [memberArgument],
    effect: 'read',
    examples: [{ words: 'By e-mail address', command: 'belfry member get ada@example.com' }],
    run: getMember,
  },
  {
    noun: 'member',
    verb: 'update',
    summary: 'Change role or name of a member',
    arguments: [memberArgument],
    flags: [roleFlag, { name: 'name', value: 'name', summary: 'What the person is called' }],
    effect: 'change',
    fieldFlags: { '/role': '--role', '/name': '--name' },
    examples: [{ words: 'Another role', command: 'belfry member update ada@example.com --role admin' }],
    run: updateMember,
  },
  {
    noun: 'member',
    verb: 'disable',
    summary: 'End all sessions and keys of a member, who cannot sign in any more',
    arguments: [memberArgument],
    effect: 'change',
    examples: [{ words: 'Somebody who left', command: 'belfry member disable ada@example.com' }],
    run: setState('disabled'),
  },
  {
    noun: 'member',
    verb: 'enable',
    summary: 'Let a disabled member sign in again',
    arguments: [memberArgument],
    effect: 'change',
    examples: [{ words: 'Somebody who is back', command: 'belfry member enable ada@example.com' }],
    run: setState('active'),
  },
  {
    noun: 'member',
    verb: 'invite-again',
    summary: 'Make a new invitation, also for a forgotten password; the one before is void',
    arguments: [memberArgument],
    effect: 'change',
    examples: [{ words: 'A forgotten password', command: 'belfry member invite-again ada@example.com' }],
    run: inviteAgain,
  },
  {
    noun: 'member',
    verb: 'delete',
    summary: 'Delete a member with all sessions',
    arguments: [memberArgument],
    effect: 'change',
    examples: [{ words: 'For good', command: 'belfry member delete ada@example.com' }],
    run: removeMember,
  },
]
