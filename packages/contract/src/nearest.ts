/**
 * "Did you mean": the known word nearest to an unknown one. Used wherever people type names: commands,
 * settings, fields, zones.
 */

/** Optimal string alignment distance: insert, delete, replace, swap of neighbours; each costs 1. */
export function editDistance(left: string, right: string): number {
  let before: number[] = []
  let previous = Array.from({ length: right.length + 1 }, (_, column) => column)
  for (let row = 1; row <= left.length; row++) {
    const current = [row]
    for (let column = 1; column <= right.length; column++) {
      const same = left[row - 1] === right[column - 1] ? 0 : 1
      let cost = Math.min(
        (previous[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (previous[column - 1] ?? 0) + same,
      )
      const swapped = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1]
      if (row > 1 && column > 1 && swapped) cost = Math.min(cost, (before[column - 2] ?? 0) + 1)
      current.push(cost)
    }
    before = previous
    previous = current
  }
  return previous[right.length] ?? 0
}

/**
 * The known word nearest to `word`, ignoring case, if near enough to be meant; `word` is looked at up to 64
 * characters.
 */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  const wanted = word.slice(0, 64).toLowerCase()
  const limit = Math.max(1, Math.floor(wanted.length / 3))
  let best: { word: string; distance: number } | undefined
  for (const candidate of known) {
    if (Math.abs(candidate.length - wanted.length) > limit) continue
    const distance = editDistance(wanted, candidate.toLowerCase())
    if (distance <= limit && (best === undefined || distance < best.distance))
      best = { word: candidate, distance }
  }
  return best?.word
}
