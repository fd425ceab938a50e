// The draws behind `H`: the same seed always gives the same values, on every node and for ever. The sequence
// is the one that Jenkins uses (the MD5 of the seed folded to 64 bits starts Java's linear congruential
// generator), so that a job moved here with its full name as seed keeps its times. It only spreads load and
// protects nothing.

import { createHash } from 'node:crypto'

export type SeededDraw = {
  /** A value of 0 to below - 1. */
  next(below: number): number
}

const MULTIPLIER = 0x5deece66dn
const MASK = (1n << 48n) - 1n

export function seededDraw(seed: string): SeededDraw {
  const digest = createHash('md5').update(seed, 'utf8').digest()
  let start = 0n
  for (let i = 0; i < 8; i++) start = (start << 8n) | BigInt((digest[i] ?? 0) ^ (digest[i + 8] ?? 0))
  let state = (start ^ MULTIPLIER) & MASK
  const bits31 = (): number => {
    state = (state * MULTIPLIER + 0xbn) & MASK
    return Number(state >> 17n)
  }
  return {
    next(below) {
      if ((below & -below) === below) return Number((BigInt(below) * BigInt(bits31())) >> 31n)
      for (;;) {
        const bits = bits31()
        const value = bits % below
        // The last, incomplete round of values is drawn again, so that none is likelier than another.
        if (bits - value + (below - 1) <= 0x7fffffff) return value
      }
    },
  }
}
