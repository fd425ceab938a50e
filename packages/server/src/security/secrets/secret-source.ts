/**
 * Resolves the secrets of an attempt: which its handler names, whether its job may use them and take them
 * where it goes, and what they are. Everything that is amiss is an answer that names secret and fix.
 *
 * Answers are kept for `keepMs`, so a new value, a new grant or one that was taken back holds everywhere
 * within that time; all together they have at most so many characters. A refusal is kept too, a failure of
 * the store is not.
 */
import { createHash } from 'node:crypto'
import { BelfryError, secretTargetsOf, secretsOf, shownTarget } from '@belfry/contract'
import type { Clock } from '../../ports/clock.ts'
import type {
  AskedSecret,
  KeptSecret,
  SecretAnswer,
  SecretAsk,
  SecretFault,
  SecretReader,
  SecretSource,
  Vault,
  WrappedKey,
} from '../../ports/secrets.ts'
import { createBoundedCache } from './bounded-cache.ts'

export interface SecretSourceOptions {
  readonly reader: SecretReader
  readonly vault: Vault
  readonly clock: Clock
  /** Default 4 s: with what a call takes, a change holds within five. */
  readonly keepMs?: number
}

const keptLength = 4_000_000
/** What an answer takes besides its values, in characters. */
const answerLength = 500
const none: SecretAnswer = { ok: true, values: new Map() }

export function createSecretSource(options: SecretSourceOptions): SecretSource {
  const { clock, keepMs = 4_000 } = options
  const answers = createBoundedCache({ clock, keepMs, most: keptLength, weightOf: lengthOf })
  return {
    async resolve(ask) {
      const { named, targets, place } = needsOf(ask.handler)
      const names = ask.names ?? named
      if (names.length === 0) return none
      const key = `${ask.tenantId} ${ask.jobId} ${ask.runAs ?? ''} ${place} ${names.join(' ')}`
      try {
        return await answers.get(key, () => answerOf(options, ask, names, targets))
      } catch (error) {
        return { ok: false, fault: unavailable(error) }
      }
    },
    async masked({ tenantId, handler }) {
      const { named } = needsOf(handler)
      if (named.length === 0) return []
      try {
        return await keptValues(options, tenantId, named)
      } catch (error) {
        throw new BelfryError('secrets_unavailable', wordsOf(error), { cause: error })
      }
    },
  }
}

/** Not from memory: a call may have gone out with a value that is younger. */
async function keptValues(
  { reader, vault }: SecretSourceOptions,
  tenantId: string,
  names: readonly string[],
): Promise<readonly string[]> {
  const { key, secrets } = await reader.readKept({ tenantId, names })
  if (key === undefined) return []
  return Promise.all(secrets.map((secret) => opened(vault, key, tenantId, secret)))
}

interface Needs {
  readonly named: readonly string[]
  readonly targets: readonly string[]
  /** Stands for the targets, which may be long. */
  readonly place: string
}

/** By the handler as the definition cache has it, so that an attempt without secrets costs nothing. */
const knownNeeds = new WeakMap<SecretAsk['handler'], Needs>()

function needsOf(handler: SecretAsk['handler']): Needs {
  const known = knownNeeds.get(handler)
  if (known !== undefined) return known
  const named = secretsOf(handler)
  const targets = named.length === 0 ? [] : secretTargetsOf(handler)
  const place = createHash('sha256').update(JSON.stringify(targets)).digest('base64')
  const needs = { named, targets, place }
  knownNeeds.set(handler, needs)
  return needs
}

function lengthOf(answer: SecretAnswer): number {
  const values = answer.ok ? [...answer.values.values()] : []
  return values.reduce((sum, value) => sum + value.length, answerLength)
}

/** Throws what may be over soon. */
async function answerOf(
  { reader, vault }: SecretSourceOptions,
  { tenantId, jobId, runAs }: SecretAsk,
  names: readonly string[],
  targets: readonly string[],
): Promise<SecretAnswer> {
  const { key, secrets } = await reader.read({ tenantId, jobId, runAs, names })
  const found = new Map(secrets.map((secret) => [secret.name, secret]))
  const values = new Map<string, string>()
  for (const name of names) {
    const secret = found.get(name)
    const fault = secret === undefined ? missing(name) : denial(secret, targets)
    if (fault !== undefined || secret === undefined || key === undefined)
      return { ok: false, fault: fault ?? missing(name) }
    values.set(name, await opened(vault, key, tenantId, secret))
  }
  return { ok: true, values }
}

async function opened(vault: Vault, key: WrappedKey, tenantId: string, secret: KeptSecret): Promise<string> {
  const { secretId, version, sealed, name } = secret
  try {
    return await vault.open(key, { tenantId, secretId, version }, sealed)
  } catch (error) {
    throw new BelfryError('secrets_unavailable', `The secret "${name}" cannot be used: ${wordsOf(error)}`, {
      cause: error,
    })
  }
}

function missing(name: string): SecretFault {
  const message =
    `There is no secret named "${name}". Store it ("belfry secret set ${name} --from-stdin") and grant it ` +
    'to the job, or take it out of the job.'
  return { code: 'secret_missing', message, retryable: false }
}

/** Undefined where some grant lets the job use it and take it everywhere that it goes. */
function denial({ name, grants }: AskedSecret, targets: readonly string[]): SecretFault | undefined {
  if (grants.length === 0) {
    const message =
      `The job may not use the secret "${name}". Somebody with the permission secret.grant can let it: ` +
      `belfry secret grant ${name} --job NAME`
    return { code: 'secret_denied', message, retryable: false }
  }
  const strays = grants.map((grant) => targets.filter((target) => grant.targets?.includes(target) === false))
  if (strays.some((each) => each.length === 0)) return undefined
  const places = (strays[0] ?? []).map(shownTarget).join('; ')
  const message =
    `The secret "${name}" was not granted for where the job takes it now (${places}). If ` +
    `that is right, grant it anew: belfry secret grant ${name} --job NAME`
  return { code: 'secret_denied', message, retryable: false }
}

function unavailable(error: unknown): SecretFault {
  return { code: 'secrets_unavailable', message: wordsOf(error), retryable: true }
}

const wordsOf = (error: unknown): string =>
  error instanceof BelfryError ? error.message : 'The store of secrets does not answer; it is tried again.'
