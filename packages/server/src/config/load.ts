/**
 * Loads the configuration: flag > environment > file > default. Unknown keys, in the file and among BELFRY_*
 * variables, are refused with the nearest known one. `NAME_FILE` reads a value from a file (for mounted
 * secrets). Faults are collected, so that one attempt shows them all; none shows a value that may be secret.
 */
import { readFileSync } from 'node:fs'
import { BelfryError, nearest } from '@belfry/contract'
import type { ErrorDetail } from '@belfry/contract'
import { parse } from 'yaml'
import type { Config, ConfigKey } from './schema.ts'
import { configKeys, configSchema, environmentName } from './schema.ts'
import { checkContainers } from './container-fields.ts'
import { checkKafka } from './kafka-fields.ts'
import { checkKubernetes } from './kubernetes-fields.ts'
import { checkLambda } from './lambda-fields.ts'
import { checkPeople } from './people-fields.ts'
import { checkProduction } from './production.ts'
import { checkSecrets } from './secret-fields.ts'
import { checkSqs } from './sqs-fields.ts'

export type ConfigSource = 'flag' | 'environment' | 'file' | 'default'

export interface LoadedConfig {
  readonly config: Config
  readonly sources: Readonly<Record<ConfigKey, ConfigSource>>
}

/** Variables of the CLI and of tools around it: not settings of a server. */
const foreignVariables = new Set(['BELFRY_URL', 'BELFRY_API_KEY', 'BELFRY_CONTEXT', 'BELFRY_CONFIG'])

const prefix = 'BELFRY_'
const fileSuffix = '_FILE'

/**
 * `flags` and `env` are as given; `file` is the path of a YAML or JSON file (`--config` or BELFRY_CONFIG).
 * Throws `invalid_config`, whose `errors` point at `/key` and say where the value came from.
 */
export function loadConfig(given: {
  flags?: Readonly<Record<string, unknown>>
  env?: Readonly<Record<string, string | undefined>>
  file?: string
}): LoadedConfig {
  const env = given.env ?? {}
  const faults: ErrorDetail[] = []
  const filePath = given.file ?? env['BELFRY_CONFIG']
  const file = filePath === undefined ? {} : readConfigFile(filePath)
  const fromEnv = readEnvironment(env, faults)
  const flags = Object.fromEntries(
    Object.entries(given.flags ?? {}).filter(([, value]) => value !== undefined),
  )
  checkKeys(Object.keys(file), `the file ${filePath}`, faults)
  checkKeys(Object.keys(flags), 'the flags', faults)
  const sources = {} as Record<ConfigKey, ConfigSource>
  for (const key of configKeys) {
    sources[key] =
      key in flags ? 'flag' : key in fromEnv.values ? 'environment' : key in file ? 'file' : 'default'
  }
  const parsed = configSchema.safeParse(pickKnown({ ...file, ...fromEnv.values, ...flags }))
  const origins = { file: filePath, variables: fromEnv.variables }
  for (const issue of parsed.error?.issues ?? []) {
    const key = String(issue.path[0] ?? '') as ConfigKey
    const from = origin(key, sources[key], origins)
    faults.push({ pointer: `/${issue.path.join('/')}`, message: `${key} ${issue.message} (from ${from})` })
  }
  if (parsed.data !== undefined) checkTogether(parsed.data, faults)
  if (faults.length > 0 || parsed.data === undefined) {
    const words = faults.map((fault) => `  ${fault.message}`).join('\n')
    throw new BelfryError('invalid_config', `The configuration is not valid:\n${words}`, { errors: faults })
  }
  return { config: parsed.data, sources }
}

interface Origins {
  readonly file: string | undefined
  /** The variable that gave each setting. */
  readonly variables: ReadonlyMap<ConfigKey, string>
}

function origin(key: ConfigKey, source: ConfigSource, origins: Origins): string {
  if (source === 'environment') return origins.variables.get(key) ?? environmentName(key)
  if (source === 'file') return `the file ${origins.file}`
  return `the ${source}s`
}

function checkTogether(config: Config, faults: ErrorDetail[]): void {
  if (config.heartbeatMs * 2 >= config.leaseMs) {
    const message = 'heartbeatMs must be less than half of leaseMs, so that one may be lost'
    faults.push({ pointer: '/heartbeatMs', message })
  }
  if (config.roles.length === 0) {
    faults.push({ pointer: '/roles', message: 'roles is empty; give at least one' })
  }
  checkContainers(config, (key, message) => faults.push({ pointer: `/${key}`, message }))
  checkKubernetes(config, (key, message) => faults.push({ pointer: `/${key}`, message }))
  checkKafka(config, (key, message) => faults.push({ pointer: `/${key}`, message }))
  checkPeople(config, (key, message) => faults.push({ pointer: `/${key}`, message }))
  checkProduction(config, (key, message) => faults.push({ pointer: `/${key}`, message }))
  checkSqs(config, (key, message) => faults.push({ pointer: `/${key}`, message }))
  checkLambda(config, (key, message) => faults.push({ pointer: `/${key}`, message }))
  checkSecrets(config, (key, message) => faults.push({ pointer: `/${key}`, message }))
}

function pickKnown(values: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([key]) => (configKeys as string[]).includes(key)))
}

function checkKeys(keys: readonly string[], where: string, faults: ErrorDetail[]): void {
  for (const key of keys) {
    if ((configKeys as string[]).includes(key)) continue
    const message = `${key} in ${where} is not a setting${suggestion(key, configKeys)}`
    faults.push({ pointer: `/${key}`, message })
  }
}

function suggestion(word: string, known: Iterable<string>, suffix = ''): string {
  const near = nearest(word, known)
  return near === undefined ? '' : `; did you mean ${near}${suffix}?`
}

function readEnvironment(env: Readonly<Record<string, string | undefined>>, faults: ErrorDetail[]) {
  const names = new Map(configKeys.map((key) => [environmentName(key), key]))
  const values: Record<string, unknown> = {}
  const variables = new Map<ConfigKey, string>()
  for (const [name, text] of Object.entries(env)) {
    if (text === undefined || foreignVariables.has(name)) continue
    const plain = name.endsWith(fileSuffix) ? name.slice(0, -fileSuffix.length) : name
    const key = names.get(plain)
    if (key === undefined) {
      if (!name.startsWith(prefix)) continue
      // DATABASE_URL has no prefix, which is easily forgotten and far from it in letters.
      const bare = plain.slice(prefix.length)
      const fix = suggestion(names.has(bare) ? bare : plain, names.keys(), name.slice(plain.length))
      const message = `${name} is not a setting${fix}`
      faults.push({ pointer: `/${name}`, message })
    } else if (variables.has(key)) {
      const message = `${key} is given by both ${plain} and ${plain}${fileSuffix}; keep one of them`
      faults.push({ pointer: `/${key}`, message })
    } else {
      variables.set(key, name)
      values[key] = name === plain ? text : readSecret(key, name, text, faults)
    }
  }
  return { values, variables }
}

function readSecret(key: ConfigKey, name: string, path: string, faults: ErrorDetail[]): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    faults.push({ pointer: `/${key}`, message: `${name} names ${path}, which cannot be read` })
    return undefined
  }
}

function readConfigFile(path: string): Record<string, unknown> {
  let value: unknown
  try {
    value = parse(readFileSync(path, 'utf8'))
  } catch (cause) {
    // Only the first line: the parser goes on with the text that it stumbled over, which may be a password.
    const [words = ''] = (cause instanceof Error ? cause.message : String(cause)).split('\n')
    const message = `The configuration file ${path} cannot be read: ${words.replace(/:$/, '')}`
    throw new BelfryError('invalid_config', message, { cause })
  }
  if (value === null || value === undefined) return {}
  if (typeof value !== 'object' || Array.isArray(value)) {
    const message = `The configuration file ${path} must hold settings, one "key: value" a line.`
    throw new BelfryError('invalid_config', message)
  }
  return value as Record<string, unknown>
}
