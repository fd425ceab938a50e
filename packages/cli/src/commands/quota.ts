/**
 * `belfry quota …`: what a tenant may have, how much of it is used, and how the operator of the server sets
 * it.
 */
import {
  nearest,
  type Quota,
  quotaCountedUpTo,
  type QuotaList,
  type QuotaName,
  quotaNames,
  type QuotaUpdate,
} from '@belfry/contract'
import type { Call, Command, FlagSpec } from '../command.ts'
import { required } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import type { Shape } from '../output/printer.ts'
import { sayChange } from './shared.ts'

const number = (value: number | null, otherwise: string): string =>
  value === null ? otherwise : value.toLocaleString('en')

const usedWords = (used: number | null, otherwise: string): string =>
  used !== null && used > quotaCountedUpTo
    ? `more than ${number(quotaCountedUpTo, '')}`
    : number(used, otherwise)

const quotaShape: Shape<Quota> = {
  name: ({ quota }) => quota,
  columns: [
    { title: 'QUOTA', cell: ({ quota }) => quota },
    { title: 'LIMIT', cell: ({ limit }) => number(limit, 'none') },
    { title: 'USED', cell: ({ used }) => usedWords(used, '-') },
    { title: 'UNIT', cell: ({ unit }) => unit },
    { title: 'SET', cell: ({ source }) => (source === 'tenant' ? 'for this tenant' : 'default') },
    { title: 'MEANING', cell: ({ description }) => description, flexible: true },
  ],
  fields: ({ quota, limit, used, unit, source, description }) => [
    ['Quota', quota],
    ['Limit', number(limit, 'none')],
    ['Used', usedWords(used, 'not known')],
    ['Unit', unit],
    ['Set', source === 'tenant' ? 'for this tenant' : 'by the configuration'],
    ['Meaning', description],
  ],
}

const tenantFlag: FlagSpec = {
  name: 'tenant',
  value: 'name',
  summary: 'Of another tenant (needs a key with the scope platform)',
}

async function quotasWanted(call: Call): Promise<QuotaList> {
  const { quotas } = await call.client()
  const tenant = call.flags.text('tenant')
  return tenant === undefined ? quotas.list() : quotas.listOf(tenant)
}

async function list(call: Call): Promise<undefined> {
  call.printer.list(await quotasWanted(call), quotaShape, 'There are no quotas.')
}

function known(name: string): QuotaName {
  const found = quotaNames.find((each) => each === name)
  if (found !== undefined) return found
  const near = nearest(name, quotaNames)
  const fix = near === undefined ? `they are ${quotaNames.join(', ')}` : `did you mean ${near}?`
  throw new UsageError(`there is no quota "${name}"; ${fix}`)
}

async function get(call: Call): Promise<undefined> {
  const name = known(required(call, 'quota'))
  const found = (await quotasWanted(call)).items.find(({ quota }) => quota === name)
  if (found !== undefined) call.printer.one(found, quotaShape)
}

/** `schedules=1000 runRate=none jobs=default`. */
function wantedLimits(call: Call): QuotaUpdate {
  const wanted: QuotaUpdate = {}
  for (const text of call.many('quotas')) {
    const [name = '', limit] = text.split('=', 2)
    const quota = known(name)
    if (limit === undefined || !/^(?:\d{1,15}|none|default)$/.test(limit))
      throw new UsageError(`"${text}" gives no limit; write ${quota}=100, ${quota}=none or ${quota}=default`)
    wanted[quota] = limit === 'none' ? null : limit === 'default' ? limit : Number(limit)
  }
  return wanted
}

async function set(call: Call): Promise<undefined> {
  const tenant = required(call, 'tenant')
  const wanted = wantedLimits(call)
  const client = await call.client()
  const { items } = await client.quotas.setOf(tenant, wanted, { dryRun: call.dryRun })
  const changed = items.filter(({ quota }) => wanted[quota] !== undefined)
  call.printer.list({ items: changed }, quotaShape, '')
  sayChange(call, `Changed the quotas of ${tenant}.`, `belfry quota list --tenant ${tenant}`)
}

export const quotaCommands: readonly Command[] = [
  {
    noun: 'quota',
    verb: 'list',
    summary: 'List quotas: what the tenant may have, and how much of it is used',
    flags: [tenantFlag],
    effect: 'read',
    isDefault: true,
    examples: [
      { words: 'Your own', command: 'belfry quota list' },
      { words: 'Those of a tenant', command: 'belfry quota list --tenant billing' },
    ],
    run: list,
  },
  {
    noun: 'quota',
    verb: 'get',
    summary: 'Show one quota',
    arguments: [{ name: 'quota', summary: 'Its name, such as schedules' }],
    flags: [tenantFlag],
    effect: 'read',
    examples: [{ words: 'How many schedules are left', command: 'belfry quota get schedules' }],
    run: get,
  },
  {
    noun: 'quota',
    verb: 'set',
    summary: 'Set what a tenant may have (needs a key with the scope platform)',
    details:
      'A limit is a number, "none" for no limit, or "default" for what the configuration of the server ' +
      'says. ' +
      'It holds within five seconds everywhere; what a tenant has beyond it stays.',
    arguments: [
      { name: 'tenant', summary: 'Name of the tenant' },
      { name: 'quotas', summary: 'Name and limit, such as schedules=1000', many: true },
    ],
    effect: 'change',
    fieldFlags: { '': '<quotas...>' },
    examples: [
      {
        words: 'A small tenant',
        command: 'belfry quota set trial schedules=100 runRate=10 scheduleIntervalMs=60000',
      },
      { words: 'As every other again', command: 'belfry quota set trial schedules=default' },
    ],
    run: set,
  },
]
