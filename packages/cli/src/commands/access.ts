/**
 * `belfry tenant …` and `belfry key
 * …`: who may use a server.
 */
import type { KeyCreated, Scope } from '@belfry/contract'
import { scopes } from '@belfry/contract'
import type { Call, Command } from '../command.ts'
import { required } from '../command.ts'
import { contextFile, saveContext } from '../contexts.ts'
import { UsageError } from '../exit-codes.ts'
import type { Shape } from '../output/printer.ts'
import { keyShape, tenantShape } from '../output/shapes.ts'
import { timeWithDistance } from '../output/times.ts'
import { instant } from '../values.ts'
import { findKey } from '../resolve-name.ts'
import { given, listFlags, pageQuery, printList, sayChange, without } from './shared.ts'

async function createTenant(call: Call): Promise<undefined> {
  const tenant = await (await call.client()).tenants.create(
    { name: required(call, 'name') },
    { dryRun: call.dryRun },
  )
  call.printer.row(tenant, tenantShape)
  const next = `belfry key create ${tenant.name}-admin --tenant ${tenant.name} --scope admin`
  sayChange(call, `Made the tenant ${tenant.name}.`, next)
}

async function listTenants(call: Call): Promise<undefined> {
  const empty = 'No tenants yet. Make one: belfry tenant create NAME'
  await printList(call, (await call.client()).tenants.list(pageQuery(call)), tenantShape, empty)
}

function scopesFromFlag(call: Call): Scope[] {
  const named = call.flags.list('scope').flatMap((text) => text.split(','))
  const wrong = named.find((name) => !(scopes as readonly string[]).includes(name))
  if (wrong !== undefined) throw new UsageError(`--scope "${wrong}" is not one of ${scopes.join(', ')}`)
  if (named.length === 0)
    throw new UsageError(`say what the key may do: --scope, one of ${scopes.join(', ')}`)
  return scopes.filter((scope) => named.includes(scope))
}

function queuesFromFlag(call: Call): string[] | undefined {
  const named = call.flags.list('queue').flatMap((text) => text.split(','))
  return named.length === 0 ? undefined : [...new Set(named)]
}

/** A new key with its secret, which is data: it is shown this once. */
const createdShape: Shape<KeyCreated> = {
  name: (key) => key.name,
  columns: [],
  fields: (key, clock) => [...keyShape.fields(key, clock), ['Secret', key.secret ?? 'not made']],
}

function expiry(call: Call): string | undefined {
  const text = call.flags.text('expires')
  if (text === undefined) return undefined
  return instant(/^\d+[a-z]/.test(text) ? `+${text}` : text, '--expires', call.io.now())
}

async function createKey(call: Call): Promise<undefined> {
  const body = {
    name: required(call, 'name'),
    scopes: scopesFromFlag(call),
    ...given({
      expiresAt: expiry(call),
      tenant: call.flags.text('tenant'),
      serviceAccount: call.flags.text('service-account'),
      queues: queuesFromFlag(call),
    }),
  }
  const client = await call.client()
  const key = await client.keys.create(body, { dryRun: call.dryRun })
  const context = call.flags.text('save-context')
  if (context === undefined || key.secret === null) {
    call.printer.one(key, createdShape)
    const secret = key.secret === null ? '' : ' Its secret is shown this once: keep it now.'
    sayChange(call, `Made the key ${key.name}.${secret}`, 'belfry context set NAME --key-file FILE')
    return
  }
  await saveContext(contextFile(call.io.env), { name: context, url: client.url, apiKey: key.secret })
  call.printer.one(without(key, 'secret'), keyShape)
  sayChange(
    call,
    `Made the key ${key.name} and kept it in the context ${context}.`,
    `belfry context use ${context}`,
  )
}

async function listKeys(call: Call): Promise<undefined> {
  const empty = 'No keys here. Make one: belfry key create NAME --scope operate'
  await printList(call, (await call.client()).keys.list(pageQuery(call)), keyShape, empty)
}

async function revokeKey(call: Call): Promise<undefined> {
  const client = await call.client()
  const found = await findKey(client, required(call, 'key'))
  if (found.revokedAt !== null) {
    call.printer.row(found, keyShape)
    const when = timeWithDistance(found.revokedAt, call.printer.clock)
    call.printer.say(`The key ${found.name} is already revoked, since ${when}; nothing is left to do.`)
    return
  }
  const key = await client.keys.revoke(found.id, { dryRun: call.dryRun })
  call.printer.row(key, keyShape)
  sayChange(call, `Revoked the key ${key.name}; no request with it is taken.`, 'belfry key list')
}

export const accessCommands: readonly Command[] = [
  {
    noun: 'tenant',
    verb: 'create',
    summary: 'Make a tenant (needs a key with the scope platform)',
    arguments: [{ name: 'name', summary: 'Name of the tenant' }],
    effect: 'change',
    fieldFlags: { '/name': '<name>' },
    examples: [{ words: 'A tenant for a team', command: 'belfry tenant create billing' }],
    run: createTenant,
  },
  {
    noun: 'tenant',
    verb: 'list',
    summary: 'List tenants (needs a key with the scope platform)',
    flags: listFlags,
    effect: 'read',
    examples: [{ words: 'All tenants', command: 'belfry tenant list --all' }],
    run: listTenants,
  },
  {
    noun: 'key',
    verb: 'create',
    summary: 'Make an API key; its secret is shown once',
    arguments: [{ name: 'name', summary: 'Name of the key' }],
    flags: [
      { name: 'scope', value: 'scopes', repeat: true, summary: `What it may do: ${scopes.join(', ')}` },
      {
        name: 'queue',
        value: 'names',
        repeat: true,
        summary: 'With the scope worker: queues that it may serve; every one if left out',
      },
      {
        name: 'service-account',
        value: 'name',
        summary: 'Whose key it is; it may do what the role of the account allows, and ends with it',
      },
      { name: 'tenant', value: 'name', summary: 'For another tenant (needs the scope platform)' },
      { name: 'expires', value: 'time', summary: 'End of its use: 90d from now, or 2027-01-01T00:00:00Z' },
      {
        name: 'save-context',
        value: 'name',
        summary: 'Keep the secret in this context instead of printing it',
      },
    ],
    effect: 'change',
    fieldFlags: {
      '/name': '<name>',
      '/scopes': '--scope',
      '/queues': '--queue',
      '/expiresAt': '--expires',
      '/tenant': '--tenant',
      '/serviceAccount': '--service-account',
    },
    examples: [
      {
        words: 'For a program that starts runs',
        command: 'belfry key create web --scope enqueue --expires 90d',
      },
      {
        words: 'For a worker of functions, in one queue',
        command: 'belfry key create mailer --scope worker --queue mail',
      },
      {
        words: 'For yourself, kept in a context',
        command: 'belfry key create me --scope admin --save-context work',
      },
    ],
    run: createKey,
  },
  {
    noun: 'key',
    verb: 'list',
    summary: 'List API keys; secrets are not kept and not shown',
    flags: listFlags,
    effect: 'read',
    examples: [{ words: 'All keys', command: 'belfry key list' }],
    run: listKeys,
  },
  {
    noun: 'key',
    verb: 'revoke',
    summary: 'Revoke an API key',
    arguments: [{ name: 'key', summary: 'Name or id of the key' }],
    effect: 'change',
    examples: [{ words: 'Stop its use at once', command: 'belfry key revoke web' }],
    run: revokeKey,
  },
]
