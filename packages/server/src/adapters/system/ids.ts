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
  let lastMs = -1
  let counter = 0
  /** The digits of `lastMs`, with the version behind them. */
  let time = ''

  /** Where eight random bytes of the pool begin, the first two bits as the variant wants them. */
  function drawBytes(): number {
    if (used + 8 > poolBytes) {
      randomFillSync(pool)
      used = 0
    }
    const start = used
    used += 8
    pool[start] = ((pool[start] ?? 0) & 0x3f) | 0x80
    return start
  }

  function moveTo(ms: number): void {
    lastMs = ms
    counter = 0
    const digits = ms.toString(16).padStart(12, '0')
    time = `${digits.slice(0, 8)}-${digits.slice(8)}-7`
  }

  return {
    uuidv7(atMs) {
      const askedMs = Math.max(0, Math.floor(atMs))
      counter += 1
      if (askedMs > lastMs || askedMs < lastMs - borrowLimitMs) moveTo(askedMs)
      else if (counter === counterLimit) moveTo(lastMs + 1)
      const start = drawBytes()
      const order = (0x1000 + counter).toString(16).slice(1)
      const variant = pool.toString('hex', start, start + 2)
      return `${time}${order}-${variant}-${pool.toString('hex', start + 2, start + 8)}`
    },
  }
}
