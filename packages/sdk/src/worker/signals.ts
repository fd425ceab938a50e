/**
 * SIGTERM and SIGINT for a process that is a worker and little else: the first one stops it in good order and
 * then ends the process, a second one ends it at once.
 */

const names = ['SIGTERM', 'SIGINT'] as const
const exitCodes = { SIGTERM: 143, SIGINT: 130 } as const

/** Answers how to leave signals alone again. */
export function endOnSignals(stop: () => Promise<void>): () => void {
  let asked = false
  const onSignal = (name: (typeof names)[number]): void => {
    if (asked) process.exit(exitCodes[name])
    asked = true
    void stop().then(
      () => process.exit(0),
      () => process.exit(1),
    )
  }
  const listeners = names.map((name) => [name, () => onSignal(name)] as const)
  for (const [name, listener] of listeners) process.on(name, listener)
  return () => {
    if (asked) return
    for (const [name, listener] of listeners) process.off(name, listener)
  }
}
