/**
 * The master keys of secrets as a server here would use them: are there any, may others read the file they
 * stand in, do they seal and open (of KMS: with these credentials), and do they open what is stored. Changes
 * nothing.
 */
import { randomBytes } from 'node:crypto'
import { statSync } from 'node:fs'
import { BelfryError } from '@belfry/contract'
import { systemClock } from '../adapters/system/clock.ts'
import { systemRandom } from '../adapters/system/ids.ts'
import type { Config } from '../config/schema.ts'
import type { KeyWrapper } from '../ports/secrets.ts'
import { openDatabase } from '../postgres/database.ts'
import { readKeyWrappers } from '../postgres/secret-reader.ts'
import { createEgress } from '../security/egress/egress.ts'
import type { Diagnosis } from './diagnosis.ts'
import { wordsOf } from './diagnosis.ts'
import { keyFileOf, keyWrappers } from './secrets.ts'

const limitMs = 3_000
/** Others than the owner may read or write it. */
const openToOthers = 0o077

const madeByHand =
  'Set BELFRY_SECRET_KEYS to 1:<openssl rand -base64 32>, the same on every process (docs/how-to/secrets.md).'

/** Never throws. */
export async function examineSecrets(config: Config): Promise<Diagnosis[]> {
  const file = examineKeyFile(config)
  if (file !== undefined) return [file]
  const egress = createEgress({ allowCidrs: [], clock: systemClock })
  try {
    return [await examineKeys(config, keyWrappers(config, egress))]
  } catch (error) {
    const message = error instanceof BelfryError ? error.message : wordsOf(error)
    return [{ name: 'secrets', status: 'fail', message, fix: 'See docs/how-to/secrets.md.' }]
  } finally {
    await egress.close()
  }
}

/** Of the embedded Postgres; undefined where the keys come from the configuration. */
function examineKeyFile({ secretKeys, secretKmsKeys, databaseUrl, dataDir }: Config): Diagnosis | undefined {
  if (secretKeys !== undefined || secretKmsKeys !== undefined || databaseUrl !== undefined) return undefined
  const path = keyFileOf(dataDir)
  const stats = statSync(path, { throwIfNoEntry: false })
  const found = (status: Diagnosis['status'], message: string, fix: string | null): Diagnosis => {
    return { name: 'secrets', status, message, fix }
  }
  if (stats === undefined)
    return found('ok', `There is no master key yet; the first start makes one in ${path}.`, null)
  if ((stats.mode & openToOthers) === 0) return found('ok', `The master key of secrets is in ${path}.`, null)
  return found(
    'fail',
    `Others on this machine may read the master key of secrets in ${path}.`,
    `chmod 600 ${path}`,
  )
}

async function examineKeys(config: Config, wrappers: readonly KeyWrapper[]): Promise<Diagnosis> {
  const [wrapper] = wrappers
  if (wrapper === undefined) {
    const message = 'There is no master key, so jobs here cannot use secrets.'
    return { name: 'secrets', status: 'warn', message, fix: madeByHand }
  }
  const signal = AbortSignal.timeout(limitMs)
  const key = randomBytes(32)
  const wrapped = await wrapper.wrap(key, 'belfry-doctor', signal)
  const opened = await wrapper.unwrap(wrapped, 'belfry-doctor', signal)
  if (!key.equals(opened)) {
    const message = `${wrapper.ids[0]} opens another key than it sealed.`
    return { name: 'secrets', status: 'fail', message, fix: 'Look at what stands between Belfry and KMS.' }
  }
  return fit(config, wrappers, wrapper.ids[0])
}

/** Whether these keys open what is stored. */
async function fit(
  { databaseUrl }: Config,
  wrappers: readonly KeyWrapper[],
  current: string,
): Promise<Diagnosis> {
  const works = `The master key ${current} seals and opens.`
  const stored = databaseUrl === undefined ? [] : await storedWrappers(databaseUrl)
  if (stored === undefined)
    return { name: 'secrets', status: 'ok', message: `${works} What is stored was not looked at.`, fix: null }
  const isOpened = (id: string): boolean => wrappers.some((wrapper) => wrapper.opens(id))
  const unknown = stored.filter(({ wrapperId }) => !isOpened(wrapperId)).map(({ wrapperId }) => wrapperId)
  if (unknown.length > 0) {
    const message = `Stored secrets need the master key ${unknown.join(' and ')}, which is not here.`
    const fix = 'Put it back (BELFRY_SECRET_KEYS or BELFRY_SECRET_KMS_KEYS), as on the other processes.'
    // what others wrapped is of use all the same
    return { name: 'secrets', status: unknown.length < stored.length ? 'warn' : 'fail', message, fix }
  }
  const older = stored
    .filter(({ wrapperId }) => wrapperId !== current)
    .reduce((sum, { tenants }) => sum + tenants, 0)
  if (older === 0) return { name: 'secrets', status: 'ok', message: works, fix: null }
  const message = `${works} ${older} tenants still need an older one.`
  return {
    name: 'secrets',
    status: 'warn',
    message,
    fix: 'Run `belfry secret rewrap`, then take the older keys out.',
  }
}

/** Undefined where the database does not tell; what is wrong with it is said elsewhere. */
async function storedWrappers(connectionString: string) {
  const db = openDatabase({
    connection: { connectionString },
    clock: systemClock,
    random: systemRandom,
    maxConnections: 1,
    applicationName: 'belfry-doctor',
    preparedStatements: false,
    connectTimeoutMs: limitMs,
    defaultTimeoutMs: limitMs,
  })
  try {
    return await readKeyWrappers(db)
  } catch {
    return undefined
  } finally {
    await db.close()
  }
}
