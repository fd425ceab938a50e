/**
 * How many requests of each key are being answered. Each holds a connection to the database, so that one key
 * without a limit could take all of them; beyond the limit a request is refused at once, to be sent again.
 */
import { BelfryError } from '@belfry/contract'

export interface BusyKeys {
  /** Does the work, or throws `too_many_requests`. */
  during<T>(keyId: string, work: () => Promise<T>): Promise<T>
}

export function createBusyKeys(limit: number): BusyKeys {
  const counts = new Map<string, number>()
  return {
    async during(keyId, work) {
      const count = counts.get(keyId) ?? 0
      if (count >= limit) {
        const message = `There are ${limit} requests with this key under way; try again when one has ended.`
        throw new BelfryError('too_many_requests', message)
      }
      counts.set(keyId, count + 1)
      try {
        return await work()
      } finally {
        const left = (counts.get(keyId) ?? 1) - 1
        if (left === 0) counts.delete(keyId)
        else counts.set(keyId, left)
      }
    },
  }
}
