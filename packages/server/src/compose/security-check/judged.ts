/**
 * What a judge of cases answers, and how it reads them. Outcomes are words of the file of cases
 * (`refuse_url`, `refuse_400`, `refuse_connect`, `allow`, a status, …).
 */
import { BelfryError } from '@belfry/contract'

export type Judged =
  | { readonly outcome: string; readonly code?: string; readonly message?: string }
  /** It cannot be judged without a server, or is about something that Belfry does not have. */
  | { readonly notApplicable: string }

export type Input = Readonly<Record<string, unknown>>

export const isInput = (value: unknown): value is Input =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A field as text; empty where it is none. */
export const textOf = (value: unknown): string =>
  typeof value === 'string' ? value : typeof value === 'number' ? String(value) : ''

/** A count that a case names, within what can be made here. Throws where it is none. */
export function countOf(value: number, most: number, name: string): number {
  if (value >= 0) return Math.min(most, Math.trunc(value))
  throw new BelfryError('invalid_request', `${name} is ${value}: nothing has so many.`)
}

export const allow: Judged = { outcome: 'allow' }
export const refused = (outcome: string, code: string, message: string): Judged => ({
  outcome,
  code,
  message,
})

/** What an error of the contract's table says of a request: a refusal with its code. */
export async function refusalOf(work: () => unknown, outcome = 'refuse_400'): Promise<Judged> {
  try {
    await work()
    return allow
  } catch (error) {
    if (!(error instanceof BelfryError)) throw error
    return refused(outcome, error.code, error.message)
  }
}

/** A text that stands for a larger one: "(300 KiB)", "(70,000 bytes)"; undefined: it stands for itself. */
export function sizeMeant(text: string): number | undefined {
  const [, digits = '', unit = ''] =
    /^\(([\d,]+) ?(bytes|B|KB|KiB|MB|MiB|characters)?[^)]*\)$/.exec(text) ?? []
  if (digits === '') return undefined
  const factors: Readonly<Record<string, number>> = { KB: 1e3, KiB: 1_024, MB: 1e6, MiB: 1_048_576 }
  return Number(digits.replaceAll(',', '')) * (factors[unit] ?? 1)
}
