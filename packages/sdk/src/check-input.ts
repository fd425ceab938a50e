/**
 * Input that cannot be meant, found before anything is sent or started: options of the calls that make
 * things, and values that JSON cannot say. The rest the server judges, by the same schemas for all.
 */
import type { ErrorCode } from '@belfry/contract'
import { BelfryError, nearest } from '@belfry/contract'

export interface OptionRule {
  /** Ends the sentence "… must be". */
  readonly what: string
  readonly fits: (value: unknown) => boolean
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const text: OptionRule = {
  what: 'a text that is not empty',
  fits: (value) => typeof value === 'string' && value !== '',
}
export const flag: OptionRule = { what: 'true or false', fits: (value) => typeof value === 'boolean' }
export const aFunction: OptionRule = { what: 'a function', fits: (value) => typeof value === 'function' }
export const anObject: OptionRule = { what: 'an object', fits: isObject }
export const texts: OptionRule = {
  what: 'a list of texts that are not empty',
  fits: (value) => Array.isArray(value) && value.every(text.fits),
}
export const jobs: OptionRule = {
  what: 'a list of jobs made by defineJob',
  fits: (value) => Array.isArray(value) && value.every(isJob),
}
export const whole = (min: number, max: number): OptionRule => ({
  what: `a whole number from ${min} to ${max}`,
  fits: (value) => Number.isInteger(value) && Number(value) >= min && Number(value) <= max,
})
/** The longest that a timer of the runtime can wait. */
export const milliseconds = whole(0, 2 ** 31 - 1)
/** Also one without end. */
export const aDuration: OptionRule = {
  what: 'a number of milliseconds, 0 or more',
  fits: (value) => typeof value === 'number' && value >= 0,
}
export const printable: OptionRule = {
  what: 'a text of printable ASCII characters',
  fits: (value) => typeof value === 'string' && /^[ -~]+$/.test(value),
}
/** Without spaces, as keys are. */
export const token: OptionRule = {
  what: 'a text of visible ASCII characters',
  fits: (value) => typeof value === 'string' && /^[!-~]+$/.test(value),
}

/** What `defineJob` answers. */
export function isJob(value: unknown): boolean {
  return isObject(value) && typeof value['name'] === 'string' && isObject(value['registration'])
}

/**
 * Throws `code` with a pointer for each option that does not fit, lacks, or is the misspelled name of one;
 * undefined counts as left out. Other names are let through: who passes a larger object means no harm.
 */
export function checkOptions(
  call: string,
  code: ErrorCode,
  given: unknown,
  rules: Readonly<Record<string, OptionRule>>,
  required: readonly string[] = [],
): void {
  if (!isObject(given)) throw refusal(call, code, [{ pointer: '', message: 'must be an object of options' }])
  const faults = Object.entries(given).flatMap(([name, value]) => {
    const rule = Object.hasOwn(rules, name) ? rules[name] : undefined
    if (rule === undefined) return misspelled(name, Object.keys(rules))
    const left = value === undefined && !required.includes(name)
    return left || rule.fits(value) ? [] : [{ pointer: `/${name}`, message: `must be ${rule.what}` }]
  })
  const missing = required.filter((name) => !Object.hasOwn(given, name))
  const lacks = missing.map((name) => ({ pointer: `/${name}`, message: `must be ${rules[name]?.what}` }))
  if (faults.length + lacks.length > 0) throw refusal(call, code, [...faults, ...lacks])
}

/** As `checkOptions`, and throws `invalid_request` for every other name as well. */
export function checkOnlyOptions(
  call: string,
  given: unknown,
  rules: Readonly<Record<string, OptionRule>>,
): void {
  checkArgument(call, '/options', given, anObject)
  checkOptions(call, 'invalid_request', given, rules)
  const known = Object.keys(rules)
  const message = `is not an option; there are ${known.join(', ')}`
  const others = Object.keys(given as object).filter((name) => !known.includes(name))
  if (others.length === 0) return
  throw refusal(
    call,
    'invalid_request',
    others.map((name) => ({ pointer: `/${name}`, message })),
  )
}

function misspelled(name: string, known: readonly string[]): Fault[] {
  const near = nearest(name, known)
  if (near === undefined) return []
  return [{ pointer: `/${name}`, message: `is not an option; did you mean "${near}"?` }]
}

/** The URL is looked at more closely (base-url.ts). */
const clientRules = {
  url: { ...text, fits: () => true },
  apiKey: token,
  fetch: aFunction,
  timeoutMs: milliseconds,
  retry: anObject,
}
const retryRules = { retries: whole(0, 100), baseMs: milliseconds, capMs: milliseconds }

/** Throws `invalid_config`. */
export function checkClientOptions(options: { readonly retry?: object | undefined }): void {
  checkOptions('createClient', 'invalid_config', options, clientRules)
  checkOptions('createClient', 'invalid_config', options.retry ?? {}, retryRules)
}

/** Throws `invalid_request` for the value of one argument. */
export function checkArgument(call: string, pointer: string, value: unknown, rule: OptionRule): void {
  if (!rule.fits(value))
    throw refusal(call, 'invalid_request', [{ pointer, message: `must be ${rule.what}` }])
}

/** The last argument of a call, where it may be left out. Throws `invalid_request`. */
export function optionsOf<Options extends object>(given: Options | undefined): Partial<Options> {
  if (given === undefined) return {}
  checkArgument('The call', '/options', given, anObject)
  return given
}

type Fault = { readonly pointer: string; readonly message: string }

function refusal(call: string, code: ErrorCode, errors: readonly Fault[]): BelfryError {
  const words = errors.map(({ pointer, message }) => `${pointer} ${message}`.trim()).join('; ')
  return new BelfryError(code, `${call} was given what it cannot take: ${words}.`, { errors })
}

/** JSON of what is sent. Throws `invalid_request`, with a pointer to what JSON cannot say. */
export function jsonOf(call: string, value: unknown): string {
  const errors = unsayable(value, [])
  if (errors.length > 0) throw refusal(call, 'invalid_request', errors)
  return JSON.stringify(value)
}

/** What JSON cannot say in a value, in words; undefined where there is nothing of it. */
export function unsayableWords(value: unknown): string | undefined {
  const [fault] = unsayable(value, [])
  return fault && `${fault.pointer} ${fault.message}`.trim()
}

/** Deeper than the server takes. */
const deepest = 100

/** Pointers are made on the way back from a fault: nearly all that is sent has none. */
function unsayable(value: unknown, above: readonly object[]): Fault[] {
  switch (typeof value) {
    case 'bigint':
      return fault('is a bigint, which JSON does not have; send it as a text')
    case 'function':
    case 'symbol':
      return fault(`is a ${typeof value}, which JSON does not have`)
    case 'number':
      return Number.isFinite(value) ? none : fault(`is ${value}, which JSON does not have`)
    case 'object':
      return value === null ? none : unsayableIn(value, above)
    case 'boolean':
    case 'string':
    case 'undefined':
      return none
  }
}

const none: Fault[] = []
const fault = (message: string): Fault[] => [{ pointer: '', message }]

function unsayableIn(value: object, above: readonly object[]): Fault[] {
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? fault('is an invalid Date') : none
  if ('toJSON' in value) return none
  if (value instanceof Map || value instanceof Set)
    return fault('is a Map or a Set, which JSON does not have; make a list or an object of it')
  if (above.includes(value)) return fault('holds itself')
  if (above.length >= deepest) return fault(`is deeper than ${deepest} levels`)
  const inside = [...above, value]
  for (const [key, part] of Object.entries(value)) {
    const found = unsayable(part, inside)
    if (found.length === 0) continue
    const escaped = key.replaceAll('~', '~0').replaceAll('/', '~1')
    return found.map(({ pointer, message }) => ({ pointer: `/${escaped}${pointer}`, message }))
  }
  return none
}
