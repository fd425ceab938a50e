/**
 * Secrets of a process: the master keys that the configuration gives, or, with the embedded Postgres, the
 * one in its data directory, which the first start makes; the vault on them; and how well they fit what is
 * stored.
 */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { BelfryError } from '@belfry/contract'
import { createKmsWrapper, type KmsSettings } from '../adapters/kms/kms-wrapper.ts'
import type { Config } from '../config/schema.ts'
import { regionOfKmsKey } from '../config/secret-fields.ts'
import { keyRingText, parseKeyRing, type KeyRing } from '../domain/key-ring.ts'
import type { Clock } from '../ports/clock.ts'
import type { EgressAgent } from '../ports/egress.ts'
import type { KeyWrapper, SecretSource, Vault } from '../ports/secrets.ts'
import type { Database } from '../postgres/database.ts'
import { createPostgresSecretReader, readKeyWrappers } from '../postgres/secret-reader.ts'
import { makePrivateFile } from '../security/private-file.ts'
import { createAwsHandler } from '../security/egress/aws-handler.ts'
import { createRingWrapper } from '../security/secrets/key-ring.ts'
import { createSecretSource } from '../security/secrets/secret-source.ts'
import { createVault } from '../security/secrets/vault.ts'
import type { Finding, ReadinessCheck, StatusReport } from '../telemetry/ops-server.ts'

export interface Secrets {
  readonly vault: Vault
  readonly source: SecretSource
  /** Not ready while it opens no tenant's key; one key among others stops nobody. */
  readonly check: ReadinessCheck
  readonly report: StatusReport
}

export interface SecretParts {
  readonly config: Config
  readonly clock: Clock
  readonly egress: EgressAgent
  /** For attempts. */
  readonly db: Database
  /** For checks. */
  readonly leases: Database
}

/** Throws `invalid_config` for a key file that cannot be used. */
export function openSecrets({ config, clock, egress, db, leases }: SecretParts): Secrets {
  const vault = createVault({ wrappers: keyWrappers(config, egress), clock })
  // the others neither store nor use any
  const uses = config.roles.includes('api') || config.roles.includes('worker')
  const check = async (): Promise<void> => {
    if (!uses) return
    const { wrappers, unknown } = await fit(vault, leases)
    if (unknown.length > 0 && unknown.length === wrappers.length) throw new Error(lacking(unknown, vault))
  }
  return {
    vault,
    source: createSecretSource({ vault, clock, reader: createPostgresSecretReader(db) }),
    check: { name: 'secrets', check },
    report: { name: 'secrets', report: () => secretsFinding(vault, leases) },
  }
}

/** Those that the configuration gives; the first one wraps. */
export function keyWrappers(config: Config, egress: EgressAgent): readonly KeyWrapper[] {
  const ring = ringOf(config)
  const kms = kmsSettings(config)
  const byRing = ring === undefined ? [] : [createRingWrapper(ring)]
  const requestHandler =
    kms && createAwsHandler({ egress, operatorUrls: [kms.endpoint], callTimeoutMs: 3_000 })
  const byKms = kms && requestHandler ? [createKmsWrapper({ settings: kms, requestHandler })] : []
  return config.secretWrapBy === 'keys' ? [...byRing, ...byKms] : [...byKms, ...byRing]
}

function ringOf(config: Config): KeyRing | undefined {
  const { secretKeys, secretKmsKeys, databaseUrl, dataDir } = config
  if (secretKeys !== undefined) return ringFrom(secretKeys, 'secretKeys')
  return databaseUrl === undefined && secretKmsKeys === undefined ? ringInFile(dataDir) : undefined
}

function ringFrom(text: string, name: string): KeyRing {
  const ring = parseKeyRing(text)
  if (typeof ring === 'string') throw new BelfryError('invalid_config', `${name} ${ring}.`)
  return ring
}

export const keyFileOf = (dataDir: string): string => join(dataDir, 'secret-keys')

/** Made by the first start, for this user only. */
function ringInFile(dataDir: string): KeyRing {
  const path = keyFileOf(dataDir)
  const known = readIfThere(path)
  if (known !== undefined) return ringFrom(known, path)
  const made = new Map([[1, randomBytes(32)]])
  if (makePrivateFile(path, keyRingText(made))) return made
  // another process made it at the same moment
  return ringFrom(readIfThere(path) ?? '', path)
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw new BelfryError('invalid_config', `The master key of secrets in ${path} cannot be read.`, {
      cause: error,
    })
  }
}

/** Undefined without `secretKmsKeys`. That the settings go together was checked when they were loaded. */
export function kmsSettings(config: Config): KmsSettings | undefined {
  const [first, ...others] = config.secretKmsKeys ?? []
  if (first === undefined) return undefined
  const region = config.secretKmsRegion ?? regionOfKmsKey(first) ?? ''
  const { secretKmsAccessKeyId: accessKeyId, secretKmsSecretAccessKey: secretAccessKey } = config
  const { secretKmsSessionToken: sessionToken } = config
  const domain = region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com'
  return {
    keys: [first, ...others],
    region,
    endpoint: config.secretKmsEndpoint ?? `https://kms.${region}.${domain}`,
    credentials:
      accessKeyId === undefined || secretAccessKey === undefined
        ? 'chain'
        : { accessKeyId, secretAccessKey, ...(sessionToken === undefined ? {} : { sessionToken }) },
  }
}

async function fit(vault: Vault, db: Database) {
  const wrappers = await readKeyWrappers(db)
  const unknown = vault.unknown(wrappers.map(({ wrapperId }) => wrapperId))
  return { wrappers, unknown }
}

function lacking(unknown: readonly string[], { currentId }: Vault): string {
  const here = currentId === undefined ? 'has none' : `wraps by ${currentId}`
  return (
    `stored secrets need the master key ${unknown.join(' and ')}, and this process ${here}; set ` +
    'BELFRY_SECRET_KEYS (or BELFRY_SECRET_KMS_KEYS) as on the other processes'
  )
}

async function secretsFinding(vault: Vault, db: Database): Promise<Finding> {
  const { wrappers, unknown } = await fit(vault, db)
  const tenants = Object.fromEntries(wrappers.map((each) => [each.wrapperId, each.tenants]))
  const facts = { masterKey: vault.currentId ?? null, tenantsByKey: tenants }
  const warn = (message: string): Finding => ({ status: 'warn', message, facts })
  if (unknown.length > 0) return warn(`${lacking(unknown, vault)}.`)
  if (vault.currentId === undefined)
    return warn('There is no master key, so no secret can be stored: set BELFRY_SECRET_KEYS.')
  const old = wrappers.filter(({ wrapperId }) => wrapperId !== vault.currentId)
  if (old.length === 0) return { status: 'ok', message: null, facts }
  return warn('Some tenants still need an older master key; run "belfry secret rewrap" and then take it out.')
}
