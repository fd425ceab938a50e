/**
 * The ring: master keys of our own, as the configuration gives them, each with a number. The highest number
 * wraps, every one opens; a key may leave the ring when no tenant's key is wrapped by it any more.
 */
import { BelfryError } from '@belfry/contract'
import type { KeyRing } from '../../domain/key-ring.ts'
import type { KeyWrapper, WrappedKey } from '../../ports/secrets.ts'
import { openBytes, sealBytes } from './sealing.ts'

const ringPrefix = 'ring:'

const boundTo = (wrapperId: string, tenantId: string) => ['belfry tenant key', wrapperId, tenantId]

export function createRingWrapper(ring: KeyRing): KeyWrapper {
  const ids = idsOf(ring)
  const keyOf = (wrapperId: string): Uint8Array => {
    const key = wrapperId.startsWith(ringPrefix)
      ? ring.get(Number(wrapperId.slice(ringPrefix.length)))
      : undefined
    if (key !== undefined) return key
    throw new BelfryError('secrets_unavailable', `The master key ${wrapperId} is not in BELFRY_SECRET_KEYS.`)
  }
  return {
    ids,
    opens: (wrapperId) => ids.includes(wrapperId),
    wrap(key, tenantId) {
      const [wrapperId] = ids
      return Promise.resolve({
        wrapperId,
        bytes: sealBytes(keyOf(wrapperId), boundTo(wrapperId, tenantId), key),
      })
    },
    async unwrap({ wrapperId, bytes }: WrappedKey, tenantId) {
      const key = openBytes(keyOf(wrapperId), boundTo(wrapperId, tenantId), bytes)
      if (key !== undefined) return key
      const message =
        `The stored key of the tenant ${tenantId} does not open with ${wrapperId}: that number stands for ` +
        'another key than when it was stored, or the row was changed. Put the right one into ' +
        'BELFRY_SECRET_KEYS.'
      throw new BelfryError('secrets_unavailable', message)
    },
  }
}

/** The newest first. */
function idsOf(ring: KeyRing): readonly [string, ...string[]] {
  const numbers = [...ring.keys()].toSorted((a, b) => b - a)
  const [newest, ...older] = numbers.map((number) => `${ringPrefix}${number}`)
  if (newest === undefined) throw new BelfryError('invalid_config', 'A key ring must hold a key.')
  return [newest, ...older]
}
