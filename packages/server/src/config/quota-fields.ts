/**
 * Quotas that every tenant has unless others are set for it (`belfry quota set`): one setting, since all of
 * them are numbers by name.
 */
import { nearest, type QuotaName, quotaLimitSchema, quotaNames } from '@belfry/contract'
import { z } from 'zod'
import { about, list } from './fields.ts'

export type QuotaDefaults = Readonly<Record<QuotaName, number | null>>

/** None of what is bounded by other things: schedules by what they cost, runs by the fair order. */
const builtIn: Readonly<Partial<Record<QuotaName, number>>> = {
  jobs: 100_000,
  workflows: 10_000,
  keys: 1_000,
  secrets: 10_000,
  streams: 500,
}

/** These hold only where they are set for a tenant: what the gate holds costs every run something. */
const notByDefault: readonly QuotaName[] = ['runsInFlight', 'startRate']
const settable = quotaNames.filter((name) => !notByDefault.includes(name))

const form = /^([A-Za-z]+)=(none|\d{1,15})$/

/** Undefined: it is a quota, with a limit that it can have. */
function faultOf(text: string): string | undefined {
  const parts = form.exec(text)
  if (parts === null) return `holds "${text}", which is no quota; write it like schedules=1000, or runs=none`
  const [, name = '', limit = ''] = parts
  const known = settable.find((each) => each === name)
  if (known === undefined) {
    const near = nearest(name, settable)
    const fix = near === undefined ? `they are ${settable.join(', ')}` : `did you mean ${near}?`
    return `names "${name}", which is no quota that can be set here; ${fix}`
  }
  if (limit === 'none' || quotaLimitSchema(known).safeParse(Number(limit)).success) return undefined
  return `gives ${name} the limit ${limit}, which it cannot have; see docs/how-to/quotas.md`
}

const quotaText = z.string({ error: 'is not a list of quotas' }).superRefine((text, context) => {
  const message = faultOf(text)
  if (message !== undefined) context.addIssue({ code: 'custom', message })
})

export const quotaFields = {
  quotas: list(quotaText)
    .default([])
    .meta(
      about(
        'What every tenant may have, as `schedules=1000,runRate=50`; `none` for no limit. Names: ' +
          settable.join(', '),
        Object.entries(builtIn)
          .map(([name, limit]) => `\`${name}=${limit}\``)
          .join(', '),
      ),
    ),
}

/** Of a checked setting. */
export function quotaDefaults(given: readonly string[]): QuotaDefaults {
  const limits: Record<QuotaName, number | null> = {
    ...(Object.fromEntries(quotaNames.map((name) => [name, null])) as QuotaDefaults),
    ...builtIn,
  }
  for (const text of given) {
    const [name, limit] = text.split('=')
    const known = settable.find((each) => each === name)
    if (known !== undefined) limits[known] = limit === 'none' ? null : Number(limit)
  }
  return limits
}
