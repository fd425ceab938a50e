/**
 * What a server in production refuses to start with: secrets that are empty, short, documented or easily
 * guessed. Judged are the settings that are secrets and the passwords inside addresses. No message holds a
 * value.
 */
import { secretFault } from '../domain/secret-strength.ts'
import type { Config, ConfigKey } from './schema.ts'
import { configKeys, environmentName, secretSettings } from './schema.ts'

/** Passwords of other systems have rules of their own; these are shorter than keys. */
const minPasswordLength = 12
const passwordSettings: ReadonlySet<string> = new Set(['kafkaPassword'])

const fix = 'make one with: openssl rand -base64 32'

/** Calls `fault` for each secret that is too weak for production. */
export function checkProduction(config: Config, fault: (key: ConfigKey, message: string) => void): void {
  if (config.mode !== 'production') return
  for (const key of configKeys) {
    const value = config[key]
    if (typeof value !== 'string') continue
    const end = `, and this is production; ${fix}, and set ${environmentName(key)}`
    const weak = secretSettings.has(key) ? settingFault(key, value) : undefined
    if (weak !== undefined) fault(key, `${key} ${weak}${end}`)
    const inUrl = passwordFault(value)
    if (inUrl !== undefined) fault(key, `the password in ${key} ${inUrl}${end}`)
  }
}

function settingFault(key: ConfigKey, value: string): string | undefined {
  if (key === 'secretKeys')
    return value
      .split(',')
      .flatMap((each) => typedFault(each) ?? [])
      .at(0)
  const related = [key]
  return passwordSettings.has(key)
    ? secretFault(value, { minLength: minPasswordLength, related })
    : secretFault(value, { related })
}

/** Of a key whose bytes are text that somebody typed; whether others are random its reader judges. */
function typedFault(key: string): string | undefined {
  const bytes = Buffer.from(key.trim().replace(/^\d+:/, ''), 'base64').toString('latin1')
  return /^[\x20-\x7e]+$/.test(bytes) ? secretFault(bytes) : undefined
}

/** Of an address with a user; one without a password is another way to log in. */
function passwordFault(value: string): string | undefined {
  const [, authority] = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)@/i.exec(value) ?? []
  if (authority === undefined || !authority.includes(':')) return undefined
  const at = authority.indexOf(':')
  const user = authority.slice(0, at)
  return secretFault(decoded(authority.slice(at + 1)), { minLength: minPasswordLength, related: [user] })
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
