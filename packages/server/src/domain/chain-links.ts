/**
 * Runs of a schedule that wait for each other form chains. Where several are taken out at once, one may have
 * waited for another of them: who waited for it then waits for the nearest one before it that is still there.
 */

export interface ChainLink {
  readonly runId: string
  /** The run that it waited for; null: none. */
  readonly beforeRunId: string | null
}

/** For each link, in their order, the nearest run before it that is not among them; null: none. */
export function remainingBefore(links: readonly ChainLink[]): (string | null)[] {
  const gone = new Map(links.map(({ runId, beforeRunId }) => [runId, beforeRunId]))
  const found = new Map<string, string | null>()
  return links.map(({ runId }) => {
    const passed: string[] = []
    let before: string | null = runId
    while (before !== null && gone.has(before) && !found.has(before)) {
      passed.push(before)
      before = gone.get(before) ?? null
    }
    const remaining = before === null ? null : gone.has(before) ? (found.get(before) ?? null) : before
    for (const each of passed) found.set(each, remaining)
    return remaining
  })
}
