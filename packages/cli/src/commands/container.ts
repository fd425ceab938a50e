/**
 * `belfry container …`: what containers of a tenant may be, and how its operator sets it. Containers
 * themselves are runs: `belfry run` shows them.
 */
import type { ContainerPolicyUpdate, ContainerPolicyView } from '@belfry/contract'
import type { Call, Command, FlagSpec } from '../command.ts'
import { required } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import type { Shape } from '../output/printer.ts'
import { given, sayChange } from './shared.ts'

const listed = (items: readonly string[], none: string): string =>
  items.length === 0 ? none : items.join(', ')

const policyShape: Shape<ContainerPolicyView> = {
  name: ({ tenant }) => tenant,
  columns: [
    { title: 'TENANT', cell: ({ tenant }) => tenant },
    { title: 'IMAGES', cell: ({ images }) => listed(images, 'none'), flexible: true },
  ],
  fields: (policy) => [
    ['Tenant', policy.tenant],
    ['Images', listed(policy.images, 'none; nothing can be run in a container')],
    ['Digests', policy.digestsRequired ? 'required' : 'optional'],
    ['Egress', listed(['none', ...policy.egress], 'none')],
    ['Memory', `at most ${policy.maxMemoryMb} MiB`],
    ['Processor', `at most ${policy.maxCpuMillis} thousandths of one`],
    ['Processes', `at most ${policy.maxPids}`],
    ['Of the tenant', listed(policy.ofTenant, 'nothing; all as the configuration says')],
  ],
}

const asConfigured = 'default'

const policyFlags: readonly FlagSpec[] = [
  {
    name: 'image',
    value: 'pattern',
    repeat: true,
    summary: 'Image that may be run, such as registry.example.com/team/*; `none`, or `default`',
  },
  {
    name: 'digests',
    value: 'word',
    choices: ['required', 'optional', asConfigured],
    summary: 'By digest only?',
  },
  {
    name: 'egress',
    value: 'class',
    repeat: true,
    summary: 'Class of egress that may be given: internet, or a list of the server; `none`, or `default`',
  },
  { name: 'max-memory', value: 'MiB', summary: 'Most memory of one container; `default`' },
  { name: 'max-cpu', value: 'thousandths', summary: 'Most of the processors for one container; `default`' },
  { name: 'max-pids', value: 'count', summary: 'Most processes of one container; `default`' },
]

async function show(call: Call): Promise<undefined> {
  const { containerPolicies } = await call.client()
  const tenant = call.flags.text('tenant')
  const policy = tenant === undefined ? await containerPolicies.get() : await containerPolicies.getOf(tenant)
  call.printer.one(policy, policyShape)
}

/** Undefined: not given; null: as the configuration says. */
function listFrom(call: Call, name: string): string[] | null | undefined {
  const items = call.flags.list(name)
  if (items.length === 0) return undefined
  const [only] = items.length === 1 ? items : []
  if (only === asConfigured) return null
  return only === 'none' ? [] : [...items]
}

function numberFrom(call: Call, name: string): number | null | undefined {
  const text = call.flags.text(name)
  if (text === undefined || text === asConfigured) return text === undefined ? undefined : null
  if (/^\d{1,7}$/.test(text)) return Number(text)
  throw new UsageError(`--${name} "${text}" is not a whole number; write a number, or default`)
}

function digestsFrom(call: Call): boolean | null | undefined {
  const word = call.flags.choice('digests', ['required', 'optional', asConfigured])
  if (word === undefined) return undefined
  return word === asConfigured ? null : word === 'required'
}

async function set(call: Call): Promise<undefined> {
  const tenant = required(call, 'tenant')
  const wanted: ContainerPolicyUpdate = given({
    images: listFrom(call, 'image'),
    digestsRequired: digestsFrom(call),
    egress: listFrom(call, 'egress'),
    maxMemoryMb: numberFrom(call, 'max-memory'),
    maxCpuMillis: numberFrom(call, 'max-cpu'),
    maxPids: numberFrom(call, 'max-pids'),
  })
  if (Object.keys(wanted).length === 0)
    throw new UsageError(
      'nothing to set: give at least one flag, such as --image registry.example.com/team/*',
    )
  const client = await call.client()
  call.printer.one(await client.containerPolicies.setOf(tenant, wanted, { dryRun: call.dryRun }), policyShape)
  sayChange(
    call,
    `Changed what containers of ${tenant} may be.`,
    `belfry container policy --tenant ${tenant}`,
  )
}

export const containerCommands: readonly Command[] = [
  {
    noun: 'container',
    verb: 'policy',
    summary: 'Show what containers of the tenant may be: images, limits, egress',
    flags: [
      { name: 'tenant', value: 'name', summary: 'Of another tenant (needs a key with the scope platform)' },
    ],
    effect: 'read',
    isDefault: true,
    examples: [
      { words: 'Your own', command: 'belfry container policy' },
      { words: 'That of a tenant', command: 'belfry container policy --tenant billing' },
    ],
    run: show,
  },
  {
    noun: 'container',
    verb: 'allow',
    summary: 'Set what containers of a tenant may be (needs a key with the scope platform)',
    details:
      'What is given replaces what was set; `default` leaves it to the configuration of the server again. ' +
      'It holds for runs of jobs that exist too, from their next attempt on.',
    arguments: [{ name: 'tenant', summary: 'Name of the tenant' }],
    flags: policyFlags,
    effect: 'change',
    fieldFlags: {
      '/images': '--image',
      '/digestsRequired': '--digests',
      '/egress': '--egress',
      '/maxMemoryMb': '--max-memory',
      '/maxCpuMillis': '--max-cpu',
      '/maxPids': '--max-pids',
    },
    examples: [
      {
        words: 'Images of one team, each by its digest',
        command: "belfry container allow billing --image 'registry.example.com/billing/*' --digests required",
      },
      { words: 'As every other tenant again', command: 'belfry container allow billing --image default' },
    ],
    run: set,
  },
]
