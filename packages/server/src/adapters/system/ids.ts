/**
 * UUIDv7 (RFC 9562): 48 bits of time, then a counter that keeps ids of one millisecond in order within this
 * process, then random bits. The last byte is always random: it picks the shard.
 */
import { randomFillSync } from 'node:crypto'
import type { Ids } from '../../ports/ids.ts'
import type { Random } from '../../ports/random.ts'

const poolBytes = 8192
const counterLimit = 0x1000
/** How far ids may run ahead of their time: more than 4,096 in one millisecond borrow from the next ones. */
const borrowLimitMs = 1_000

export const systemRandom: Random = { next: () => Math.random() }

export function createSystemIds(): Ids {
  const pool = Buffer.alloc(poolBytes)
  let used = poolBytes
  let lastMs = 0
  let counter = 0

  function randomBytes(): Buffer {
    if (used + 8 > poolBytes) {
      randomFillSync(pool)
      used = 0
    }
    used += 8
    return pool.subarray(used - 8, used)
  }

  return {
    uuidv7(atMs) {
      const askedMs = Math.max(0, Math.floor(atMs))
      counter += 1
      if (askedMs > lastMs || askedMs < lastMs - borrowLimitMs) {
        lastMs = askedMs
        counter = 0
      } else if (counter === counterLimit) {
        lastMs += 1
        counter = 0
      }
      const ms = lastMs
      const time = ms.toString(16).padStart(12, '0')
      const order = counter.toString(16).padStart(3, '0')
      const random = randomBytes()
      random[0] = ((random[0] ?? 0) & 0x3f) | 0x80
      const tail = random.toString('hex')
      return `${time.slice(0, 8)}-${time.slice(8)}-7${order}-${tail.slice(0, 4)}-${tail.slice(4)}`
    },
  }
}
