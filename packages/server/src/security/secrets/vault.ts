/**
 * The vault: opens keys of tenants with the keys above them, and seals and opens values with those. Opened
 * keys are kept in memory for a while, so that a key service is asked once in some minutes and not at each
 * attempt. They are found by what was stored, never by the tenant alone: a key that a rolled-back transaction
 * made is never taken for the one that came after it.
 */
import { BelfryError } from '@belfry/contract'
import { createHash, randomBytes } from 'node:crypto'
import type { Clock } from '../../ports/clock.ts'
import type { KeyWrapper, SealedPlace, Vault, WrappedKey } from '../../ports/secrets.ts'
import { createBoundedCache } from './bounded-cache.ts'
import { keyBytes, openBytes, sealBytes } from './sealing.ts'

export interface VaultOptions {
  /** The first one wraps; each opens what is its own. */
  readonly wrappers: readonly KeyWrapper[]
  readonly clock: Clock
  /** Default 5 min. */
  readonly keepMs?: number
}

const keptKeys = 2_000
/** For one call of a key service. */
const callLimitMs = 3_000

const boundTo = ({ tenantId, secretId, version }: SealedPlace) => [
  'belfry secret',
  tenantId,
  secretId,
  String(version),
]

export function createVault({ wrappers, clock, keepMs = 300_000 }: VaultOptions): Vault {
  const [first] = wrappers
  const opened = createBoundedCache<Uint8Array>({ clock, keepMs, most: keptKeys })

  const current = (): KeyWrapper => {
    if (first !== undefined) return first
    const message =
      'This installation has no master key, so no secret can be stored or used. Set BELFRY_SECRET_KEYS to ' +
      '1:<base64 of 32 random bytes> (openssl rand -base64 32), the same on every process; see ' +
      'docs/how-to/secrets.md.'
    throw new BelfryError('secrets_unavailable', message)
  }

  async function inTime<T>(call: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const limit = new AbortController()
    const timer = clock.setTimer(callLimitMs, () => limit.abort())
    try {
      return await call(limit.signal)
    } finally {
      timer.cancel()
    }
  }

  async function unwrap(tenantId: string, key: WrappedKey): Promise<Uint8Array> {
    const wrapper = wrappers.find((each) => each.opens(key.wrapperId))
    if (wrapper === undefined) {
      current()
      const known = wrappers.flatMap(({ ids }) => ids).join(', ')
      const message =
        `The key of the tenant ${tenantId} is wrapped by ${key.wrapperId}, and this process has ${known}. ` +
        'Put that master key back beside the others, and take it out after "belfry secret rewrap".'
      throw new BelfryError('secrets_unavailable', message)
    }
    return inTime((signal) => wrapper.unwrap(key, tenantId, signal))
  }

  const keyOf = (tenantId: string, key: WrappedKey): Promise<Uint8Array> =>
    opened.get(fingerprint(tenantId, key), () => unwrap(tenantId, key))

  return {
    get currentId() {
      return first?.ids[0]
    },
    newKey: (tenantId) => inTime((signal) => current().wrap(randomBytes(keyBytes), tenantId, signal)),
    async rewrap(tenantId, key) {
      const plain = await unwrap(tenantId, key)
      return inTime((signal) => current().wrap(plain, tenantId, signal))
    },
    async warm(tenantId, key) {
      await keyOf(tenantId, key)
    },
    async seal(key, place, value) {
      return sealBytes(await keyOf(place.tenantId, key), boundTo(place), Buffer.from(value, 'utf8'))
    },
    async open(key, place, sealed) {
      const plain = openBytes(await keyOf(place.tenantId, key), boundTo(place), sealed)
      if (plain !== undefined) return plain.toString('utf8')
      const message =
        'it does not open with the key of its tenant: its row was changed or moved. Store a new ' +
        'value with "belfry secret set NAME --from-stdin"'
      throw new BelfryError('secrets_unavailable', message)
    },
    unknown: (ids) => ids.filter((id) => !wrappers.some((wrapper) => wrapper.opens(id))),
  }
}

const fingerprint = (tenantId: string, { wrapperId, bytes }: WrappedKey): string =>
  createHash('sha256').update(`${tenantId} ${wrapperId} `).update(bytes).digest('base64')
