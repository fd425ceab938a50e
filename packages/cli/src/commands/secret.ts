/**
 * `belfry secret …`: values that jobs need. A value comes from standard input or a file, never from the
 * command line, where others on the machine would see it, and is shown nowhere.
 */
import { readFileSync } from 'node:fs'
import type { Secret } from '@belfry/contract'
import { BelfryError, nearest } from '@belfry/contract'
import type { Client } from '@belfry/sdk'
import type { Call, Command, FlagSpec } from '../command.ts'
import { required } from '../command.ts'
import { exitCodes, UsageError } from '../exit-codes.ts'
import { secretShape, secretSummaryShape } from '../output/secret-shapes.ts'
import { isId } from '../resolve-name.ts'
import { given, listFlags, pageQuery, printList, refuseTogether, sayChange } from './shared.ts'

const secretArgument = { name: 'secret', summary: 'Name or id of the secret' }

const granteeFlags: readonly FlagSpec[] = [
  { name: 'job', value: 'name', summary: 'A job' },
  { name: 'workflow', value: 'name', summary: 'The tasks of a workflow that have handlers of their own' },
  { name: 'service-account', value: 'name', summary: 'Every job that runs as a service account' },
]

const granteeFields: Readonly<Record<string, string>> = {
  '/job': '--job',
  '/workflow': '--workflow',
  '/serviceAccount': '--service-account',
}

async function lookFor(client: Client, nameOrId: string): Promise<Secret | undefined> {
  if (isId(nameOrId)) return client.secrets.get(nameOrId)
  const [found] = await client.secrets.list({ name: nameOrId, limit: 1 }).take(1)
  return found && client.secrets.get(found.id)
}

async function findSecret(client: Client, nameOrId: string): Promise<Secret> {
  const found = await lookFor(client, nameOrId)
  if (found !== undefined) return found
  const known = await client.secrets.list({ limit: 1000 }).take(1000)
  const near = nearest(
    nameOrId,
    known.map(({ name }) => name),
  )
  const fix = near === undefined ? 'see `belfry secret list`' : `did you mean ${near}?`
  throw new BelfryError('not_found', `There is no secret "${nameOrId}"; ${fix}`)
}

/** What `echo` puts behind a value is not part of it. */
const withoutLastNewline = (text: string): string => text.replace(/\r?\n$/, '')

async function valueOf(call: Call): Promise<string> {
  refuseTogether(call, 'from-stdin', 'from-file')
  const path = call.flags.text('from-file')
  if (call.flags.on('from-stdin')) return withoutLastNewline(await call.io.readStdin())
  if (path === undefined)
    throw new UsageError('say where the value comes from: --from-stdin or --from-file PATH')
  try {
    return withoutLastNewline(readFileSync(path, 'utf8'))
  } catch (cause) {
    const words = cause instanceof Error ? cause.message : String(cause)
    throw new UsageError(`--from-file ${path} cannot be read: ${words}`)
  }
}

async function set(call: Call): Promise<undefined> {
  const name = required(call, 'name')
  const value = await valueOf(call)
  const client = await call.client()
  const { dryRun } = call
  const { secrets } = client
  const description = call.flags.text('description')
  const before = await lookFor(client, name)
  if (before === undefined) {
    const secret = await secrets.create({ name, value, ...given({ description }) }, { dryRun })
    call.printer.row(secret, secretShape)
    sayChange(call, `Created the secret ${secret.name}.`, `belfry secret grant ${secret.name} --job JOB`)
    return
  }
  const discardBefore = call.flags.on('discard-before')
  if (description !== undefined) await secrets.update(before.id, { description }, { dryRun })
  const secret = await secrets.rotate(before.id, { value, discardBefore }, { dryRun })
  call.printer.row(secret, secretShape)
  const version = `${secret.name} to version ${secret.version}`
  sayChange(
    call,
    `Set the secret ${version}; attempts get it within five seconds.`,
    `belfry secret get ${secret.name}`,
  )
}

async function list(call: Call): Promise<undefined> {
  const { secrets } = await call.client()
  const empty = 'No secrets yet. Store one: belfry secret set NAME --from-stdin'
  await printList(call, secrets.list(pageQuery(call)), secretSummaryShape, empty)
}

async function get(call: Call): Promise<undefined> {
  call.printer.one(await findSecret(await call.client(), required(call, 'secret')), secretShape)
}

async function restore(call: Call): Promise<undefined> {
  const client = await call.client()
  const found = await findSecret(client, required(call, 'secret'))
  const version = call.flags.whole('to', 1, 1_000_000_000)
  if (version === undefined)
    throw new UsageError(
      `say to which version: --to ${found.versions.map((each) => each.version).join(' or ')}`,
    )
  const secret = await client.secrets.restore(found.id, { version }, { dryRun: call.dryRun })
  call.printer.row(secret, secretShape)
  sayChange(
    call,
    `Put the secret ${secret.name} back to version ${version}.`,
    `belfry secret get ${secret.name}`,
  )
}

async function remove(call: Call): Promise<undefined> {
  const client = await call.client()
  const secret = await findSecret(client, required(call, 'secret'))
  await client.secrets.delete(secret.id, { dryRun: call.dryRun })
  sayChange(call, `Deleted the secret ${secret.name}.`, 'belfry secret list')
}

function granteeOf(call: Call) {
  const names = granteeFlags.map(({ name }) => name)
  refuseTogether(call, ...names)
  const job = call.flags.text('job')
  const workflow = call.flags.text('workflow')
  const serviceAccount = call.flags.text('service-account')
  const words = [
    job === undefined ? [] : [`the job ${job}`],
    workflow === undefined ? [] : [`the workflow ${workflow}`],
    serviceAccount === undefined ? [] : [`the service account ${serviceAccount}`],
  ].flat()
  const [name] = words
  if (name === undefined) throw new UsageError('say to whom: --job, --workflow or --service-account')
  return { body: given({ job, workflow, serviceAccount }), name }
}

async function grant(call: Call): Promise<undefined> {
  const { body, name } = granteeOf(call)
  const client = await call.client()
  const found = await findSecret(client, required(call, 'secret'))
  const anyTarget = call.flags.on('any-target')
  const secret = await client.secrets.grant(found.id, { ...body, anyTarget }, { dryRun: call.dryRun })
  call.printer.row(secret, secretShape)
  const { targets = null } = secret.grants[0] ?? {}
  const bound = targets === null ? 'wherever it takes it' : `for ${targets.join('; ')}`
  sayChange(
    call,
    `Made a grant: ${name} may use ${secret.name} ${bound}.`,
    `belfry secret get ${secret.name}`,
  )
}

async function revoke(call: Call): Promise<undefined> {
  const { body, name } = granteeOf(call)
  const client = await call.client()
  const found = await findSecret(client, required(call, 'secret'))
  const secret = await client.secrets.revoke(found.id, body, { dryRun: call.dryRun })
  call.printer.row(secret, secretShape)
  sayChange(
    call,
    `Revoked the grant of ${name}; it holds within five seconds.`,
    `belfry secret get ${secret.name}`,
  )
}

/** Step by step, so that it may be stopped at any moment and called again. */
async function rewrap(call: Call): Promise<number | undefined> {
  const client = await call.client()
  const limit = call.flags.whole('step', 1, 200) ?? 50
  let done = 0
  let after: string | undefined
  const failed: { readonly tenant: string; readonly why: string }[] = []
  for (;;) {
    const from = after === undefined ? {} : { after }
    const step = await client.secrets.rewrap({ limit, ...from }, { dryRun: call.dryRun })
    done += step.rewrapped
    failed.push(...step.failed)
    if (step.left > 0 && step.next !== null && !call.dryRun) {
      call.printer.say(`${done} keys of tenants are wrapped by ${step.current}, ${step.left} are left.`)
      after = step.next
      continue
    }
    const others = step.wrappedBy.filter(({ key }) => key !== step.current).map(({ key }) => key)
    const { current, left, wrappedBy } = step
    const summary = { current, rewrapped: done, left, wrappedBy, failed }
    call.printer.one(summary, {
      name: ({ current }) => current,
      columns: [],
      fields: (each) => [
        ['Master key', each.current],
        ['Rewrapped', String(each.rewrapped)],
        ['Left', String(each.left)],
        ['By key', each.wrappedBy.map(({ key, tenants }) => `${key}: ${tenants}`).join(', ') || '-'],
        ...each.failed.map(({ tenant, why }): [string, string] => [`Failed: ${tenant}`, why]),
      ],
    })
    const next =
      others.length === 0
        ? 'take the older master keys out of the configuration of every process'
        : `keep ${others.join(', ')}, and call it again`
    sayChange(call, `Made ${done} keys of tenants open with ${current} alone.`, next)
    return failed.length === 0 ? undefined : exitCodes.failed
  }
}

export const secretCommands: readonly Command[] = [
  {
    noun: 'secret',
    verb: 'set',
    summary: 'Store a secret, or give it a new value',
    details:
      'The value comes from standard input or a file; one line break at its end is left out. Nobody reads ' +
      'it back: a job that was granted the secret names it as {{secrets.NAME}} in a header or environment ' +
      'value.',
    arguments: [{ name: 'name', summary: 'Name of the secret: letters, digits, ".", "_", "-"' }],
    flags: [
      { name: 'from-stdin', summary: 'The value is what comes on standard input' },
      { name: 'from-file', value: 'path', summary: 'The value is what stands in this file' },
      { name: 'description', value: 'text', summary: 'What it is for' },
      { name: 'discard-before', summary: 'Delete its older versions at once, because they leaked' },
    ],
    effect: 'change',
    fieldFlags: { '/name': '<name>', '/value': '--from-stdin', '/description': '--description' },
    examples: [
      {
        words: 'From a password manager',
        command: 'pass show api/token | belfry secret set api-token --from-stdin',
      },
      { words: 'A private key', command: 'belfry secret set client-key --from-file client.pem' },
    ],
    run: set,
  },
  {
    noun: 'secret',
    verb: 'list',
    summary: 'List secrets; values are never shown',
    flags: listFlags,
    effect: 'read',
    examples: [{ words: 'All secrets', command: 'belfry secret list --all' }],
    run: list,
  },
  {
    noun: 'secret',
    verb: 'get',
    summary: 'Show a secret: its versions, and who may use it',
    arguments: [secretArgument],
    effect: 'read',
    examples: [{ words: 'One secret in full', command: 'belfry secret get api-token' }],
    run: get,
  },
  {
    noun: 'secret',
    verb: 'grant',
    summary: 'Let a job, a workflow or a service account use a secret',
    details:
      'The grant holds for where the job takes the secret now: its hosts, its image and command, its ' +
      'function. If that changes, its runs fail until somebody grants it anew.',
    arguments: [secretArgument],
    flags: [
      ...granteeFlags,
      { name: 'any-target', summary: 'Whoever may change the job may send the secret anywhere' },
    ],
    effect: 'change',
    fieldFlags: { ...granteeFields, '/anyTarget': '--any-target' },
    examples: [{ words: 'To a job', command: 'belfry secret grant api-token --job nightly-report' }],
    run: grant,
  },
  {
    noun: 'secret',
    verb: 'revoke',
    summary: 'Take a grant back',
    arguments: [secretArgument],
    flags: granteeFlags,
    effect: 'change',
    fieldFlags: granteeFields,
    examples: [{ words: 'From a job', command: 'belfry secret revoke api-token --job nightly-report' }],
    run: revoke,
  },
  {
    noun: 'secret',
    verb: 'restore',
    summary: 'Go back to an older version of a secret',
    arguments: [secretArgument],
    flags: [{ name: 'to', value: 'version', summary: 'One of those that `secret get` shows' }],
    effect: 'change',
    fieldFlags: { '/version': '--to' },
    examples: [{ words: 'The one before', command: 'belfry secret restore api-token --to 3' }],
    run: restore,
  },
  {
    noun: 'secret',
    verb: 'delete',
    summary: 'Delete a secret that is granted to nothing',
    arguments: [secretArgument],
    effect: 'change',
    examples: [{ words: 'See first whether it can be', command: 'belfry secret delete api-token --dry-run' }],
    run: remove,
  },
  {
    noun: 'secret',
    verb: 'rewrap',
    summary: 'Wrap the keys of all tenants by the newest master key (needs the scope platform)',
    details:
      'After a new master key was added to the configuration of every process. May be stopped at any ' +
      'moment and called again. Afterwards the older master keys open nothing and may go.',
    flags: [
      { name: 'step', value: 'count', summary: 'Keys of tenants in one call, 1 to 200; 50 if left out' },
    ],
    effect: 'change',
    fieldFlags: { '/limit': '--step' },
    examples: [{ words: 'To the end', command: 'belfry secret rewrap' }],
    run: rewrap,
  },
]
