// All chance of a simulated world: one seed, and streams of it by name, so that what one part draws does not
// change what another one gets.

export interface Chance {
  /** Uniform in [0, 1). */
  readonly next: () => number
  /** A whole number, 0 to `count` - 1. */
  readonly below: (count: number) => number
  readonly between: (least: number, most: number) => number
  readonly hit: (probability: number) => boolean
  readonly pick: <T>(items: readonly T[]) => T
  /** A stream of its own, the same for the same name. */
  readonly fork: (name: string) => Chance
}

export function createChance(seed: number): Chance {
  let state = seed >>> 0
  /** mulberry32 */
  function next(): number {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000
  }
  const below = (count: number): number => Math.floor(next() * count)
  return {
    next,
    below,
    between: (least, most) => least + next() * (most - least),
    hit: (probability) => next() < probability,
    pick(items) {
      const item = items[below(items.length)]
      if (item === undefined) throw new Error('There is nothing to pick from.')
      return item
    },
    fork: (name) => createChance(hash(`${seed} ${name}`)),
  }
}

/** FNV-1a. */
function hash(text: string): number {
  let sum = 0x811c9dc5
  for (let index = 0; index < text.length; index++)
    sum = Math.imul(sum ^ text.charCodeAt(index), 0x01000193) >>> 0
  return sum
}
