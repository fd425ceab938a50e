/**
 * Undoes a start, last step first, within a budget of time. A step that fails is logged and does not keep the
 * others from being undone; one that takes longer than what is left of the budget is given up, in words, and
 * goes on behind: a stop must end, whatever does not answer.
 */
import type { Logger } from 'pino'
import type { Clock } from '../ports/clock.ts'

export interface UndoStep {
  /** What it stops, for the log. */
  readonly name: string
  /** What it gets at least, also when the steps before it have used up the budget. Default 1 s. */
  readonly leastMs?: number
  readonly undo: () => Promise<void>
}

const defaultLeastMs = 1_000

type ErrorLogger = Pick<Logger, 'error'>

/** Takes the steps out of `steps`, so that none is undone twice. Never throws. */
export async function unwind(
  steps: UndoStep[],
  options: { clock: Clock; logger: ErrorLogger; budgetMs: number },
): Promise<void> {
  const { clock, logger } = options
  const endMs = clock.monotonicMs() + options.budgetMs
  for (const step of steps.splice(0).reverse()) {
    const limitMs = Math.max(step.leastMs ?? defaultLeastMs, endMs - clock.monotonicMs())
    const late = new AbortController()
    const done = undo(step, logger).then(() => true)
    const inTime = await Promise.race([done, clock.sleep(limitMs, late.signal).then(() => false)])
    late.abort()
    if (inTime) continue
    const words = `${step.name} did not stop within ${Math.round(limitMs)} ms; going on without it`
    logger.error({ event: 'stop_given_up', part: step.name, limitMs }, words)
  }
}

async function undo({ name, undo: run }: UndoStep, logger: ErrorLogger): Promise<void> {
  try {
    await run()
  } catch (error) {
    logger.error({ event: 'stop_failed', part: name, err: error }, `${name} did not stop cleanly`)
  }
}
