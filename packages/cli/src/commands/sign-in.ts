/**
 * `belfry login`, `belfry join` and `belfry session …`: a person's own way in. Passwords come from a file or
 * from standard input, never from the command line, where others on the machine would see them. The session
 * is kept in a context, as a key would be.
 */
import type { SignedIn } from '@belfry/contract'
import { createClient } from '@belfry/sdk'
import type { Call, Command, FlagSpec } from '../command.ts'
import { required } from '../command.ts'
import { contextFile, saveContext } from '../contexts.ts'
import { UsageError } from '../exit-codes.ts'
import { personSessionShape } from '../output/member-shapes.ts'
import { isId } from '../resolve-name.ts'
import { findMember } from './member.ts'
import { given, listFlags, pageQuery, printList, sayChange } from './shared.ts'

const passwordFlag: FlagSpec = {
  name: 'password-file',
  value: 'path',
  summary: 'File with the password, `-` for standard input',
}
const saveFlag: FlagSpec = {
  name: 'save-context',
  value: 'name',
  summary: 'Context that keeps the session; the name of the tenant if left out',
}

/** What `echo` puts behind a value is not part of it. */
const withoutLastNewline = (text: string): string => text.replace(/\r?\n$/, '')

async function fromFile(call: Call, flag: string): Promise<string> {
  const text = await call.flags.file(flag)
  if (text === undefined) throw new UsageError(`say where it is: --${flag} PATH, or - for standard input`)
  return withoutLastNewline(text)
}

/** Without a key: whoever signs in has none, and a stale one must not stand in the way. */
async function withoutKey(call: Call) {
  const { url } = await call.connection()
  return createClient({ url, fetch: call.io.fetch })
}

async function keepSession(call: Call, url: string, signedIn: SignedIn): Promise<void> {
  const { session, member, tenant, token } = signedIn
  const name = call.flags.text('save-context') ?? tenant.name
  const file = contextFile(call.io.env)
  await saveContext(file, { name, url, use: true, ...given({ apiKey: token ?? undefined }) })
  call.printer.row(session, personSessionShape)
  call.printer.say(
    `${member.name} is signed in to ${tenant.name} as ${member.role}; the session is in the context ` +
      `${name}, which is current now.`,
    'Next: belfry session list',
  )
}

async function login(call: Call): Promise<undefined> {
  const email = required(call, 'email')
  const password = await fromFile(call, 'password-file')
  const client = await withoutKey(call)
  if (call.dryRun) {
    call.printer.say(`Dry run, nothing was stored: would sign in ${email} at ${client.url}`)
    return
  }
  const tenant = call.flags.text('tenant')
  await keepSession(
    call,
    client.url,
    await client.signIn({ email, password, answer: 'token', ...given({ tenant }) }),
  )
}

async function join(call: Call): Promise<undefined> {
  if (call.flags.text('invite-file') === '-' && call.flags.text('password-file') === '-')
    throw new UsageError('standard input holds one of the two: give --invite-file or --password-file a path')
  const token = (await fromFile(call, 'invite-file')).trim()
  const password = await fromFile(call, 'password-file')
  const client = await withoutKey(call)
  if (call.dryRun) {
    call.printer.say(`Dry run, nothing was stored: would accept the invitation at ${client.url}`)
    return
  }
  const name = call.flags.text('name')
  await keepSession(
    call,
    client.url,
    await client.acceptInvite({ token, password, answer: 'token', ...given({ name }) }),
  )
}

async function listSessions(call: Call): Promise<undefined> {
  const client = await call.client()
  const named = call.flags.text('member')
  const memberId = named === undefined || isId(named) ? named : (await findMember(client, named)).id
  const sessions = client.sessions.list({ ...pageQuery(call), ...given({ memberId }) })
  await printList(
    call,
    sessions,
    personSessionShape,
    'No sessions. Sign in: belfry login EMAIL --password-file -',
  )
}

async function revokeSession(call: Call): Promise<undefined> {
  const client = await call.client()
  const session = await client.sessions.revoke(required(call, 'session'), { dryRun: call.dryRun })
  call.printer.row(session, personSessionShape)
  sayChange(call, `Revoked the session ${session.id}.`, 'belfry session list')
}

async function endSession(call: Call): Promise<undefined> {
  const client = await call.client()
  const session = await client.sessions.end({ dryRun: call.dryRun })
  call.printer.row(session, personSessionShape)
  sayChange(call, 'Revoked this session; nobody can use it any more.', 'belfry login EMAIL --password-file -')
}

export const signInCommands: readonly Command[] = [
  {
    noun: 'login',
    summary: 'Sign in with e-mail address and password, and keep the session in a context',
    arguments: [{ name: 'email', summary: 'E-mail address' }],
    flags: [
      passwordFlag,
      { name: 'tenant', value: 'name', summary: 'Tenant, where the address is in several' },
      saveFlag,
    ],
    effect: 'localChange',
    fieldFlags: { '/email': '<email>', '/password': '--password-file', '/tenant': '--tenant' },
    examples: [
      {
        words: 'With the password from standard input',
        command: 'belfry login ada@example.com --password-file - --url https://belfry.example.com',
      },
    ],
    run: login,
  },
  {
    noun: 'join',
    summary: 'Accept an invitation: set a password, sign in, keep the session in a context',
    flags: [
      { name: 'invite-file', value: 'path', summary: 'File with the invitation, `-` for standard input' },
      passwordFlag,
      { name: 'name', value: 'name', summary: 'What you are called' },
      saveFlag,
    ],
    effect: 'localChange',
    fieldFlags: { '/token': '--invite-file', '/password': '--password-file', '/name': '--name' },
    examples: [
      {
        words: 'With the invitation in a file',
        command: 'belfry join --invite-file invite.txt --password-file - --url https://belfry.example.com',
      },
    ],
    run: join,
  },
  {
    noun: 'session',
    verb: 'list',
    summary: 'List the sessions that you, or another member, may be signed in with',
    flags: [
      { name: 'member', value: 'email', summary: 'Of another member, by e-mail address or id' },
      ...listFlags,
    ],
    effect: 'read',
    examples: [{ words: 'Your own', command: 'belfry session list' }],
    run: listSessions,
  },
  {
    noun: 'session',
    verb: 'revoke',
    summary: 'End a session, within five seconds everywhere',
    arguments: [{ name: 'session', summary: 'Id of the session' }],
    effect: 'change',
    examples: [
      { words: 'A lost laptop', command: 'belfry session revoke 019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f' },
    ],
    run: revokeSession,
  },
  {
    noun: 'session',
    verb: 'end',
    summary: 'Sign out: end the session that the current context holds',
    effect: 'change',
    examples: [{ words: 'Sign out', command: 'belfry session end' }],
    run: endSession,
  },
]
