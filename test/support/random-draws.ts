// Randomness of tests that draw by a seed: a seeded generator, so that a failure can be replayed, and the
// seed itself, which is printed and read from SEED.

export type Draw = (below: number) => number

/** A small seeded generator (mulberry32). */
export function drawer(seed: number): Draw {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

/** The seed of this run; `SEED=…` replays one. */
export function seedOf(name: string): number {
  const given = process.env['SEED']
  const seed = given === undefined ? Date.now() % 1_000_000_007 : Number(given)
  process.stdout.write(`${name}: SEED=${seed}\n`)
  return seed
}

export function pick<T>(draw: Draw, items: readonly T[]): T {
  const item = items[draw(items.length)]
  if (item === undefined) throw new Error('nothing to pick from')
  return item
}
