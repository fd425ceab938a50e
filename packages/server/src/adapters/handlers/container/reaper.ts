/**
 * Finds what dead workers have left on an engine, by its labels, and removes it: containers, holders of
 * networks, volumes.
 *
 * 1. Of this installation only: an engine may serve several.
 * 2. What a run of this process uses is left alone.
 * 3. All else is judged by Postgres: where the session still holds the run under that epoch, its worker may
 *    be alive (several may share an engine). Where it does not, nobody may write the end of that attempt any
 *    more, and it is removed. While Postgres cannot be asked, nothing is.
 */
import type { Clock, Timer } from '../../../ports/clock.ts'
import type { HeldName } from '../../../ports/worker-store.ts'
import type { EngineClient } from './engine-client.ts'
import { containersOn, type EngineItem, removeItem, volumesOn } from './engine-items.ts'

export interface ReaperOptions {
  readonly engine: EngineClient
  readonly clock: Clock
  readonly installation: string
  readonly intervalMs: number
  /** Runs that this process executes, each under one epoch. */
  readonly isOwn: (run: HeldName) => boolean
  /** Those that the session still holds. */
  readonly stillHeld: (sessionId: string, runs: readonly HeldName[]) => Promise<readonly HeldName[]>
  /** Told how many things were removed, and of what could not be. */
  readonly onRemoved: (count: number) => void
  readonly onFault: (error: unknown) => void
}

export interface Reaper {
  start(): void
  /** Looks once; resolves with how many things were removed. */
  sweep(): Promise<number>
  /** Resolves when it does not look any more. */
  stop(): Promise<void>
}

export function createReaper(options: ReaperOptions): Reaper {
  const { engine, clock, intervalMs, isOwn, stillHeld, onRemoved, onFault } = options
  let timer: Timer | undefined
  let sweeping: Promise<unknown> = Promise.resolve()
  let stopped = false

  async function sweep(): Promise<number> {
    // volumes go last: they are in use as long as a container is there
    const found = [
      ...(await containersOn(engine, options.installation)),
      ...(await volumesOn(engine, options.installation)),
    ].filter(({ run }) => !isOwn(run))
    const orphans = await withoutHeld(found, stillHeld)
    let removed = 0
    for (const each of orphans) {
      if (isOwn(each.run)) continue
      try {
        await removeItem(engine, each)
        removed += 1
      } catch (error) {
        // one that stays must not keep the others
        onFault(error)
      }
    }
    if (removed > 0) onRemoved(removed)
    return removed
  }

  function lookAgain(delayMs: number): void {
    if (stopped) return
    timer = clock.setTimer(delayMs, () => {
      sweeping = sweep()
        .catch(onFault)
        .finally(() => lookAgain(intervalMs))
    })
  }

  return {
    start: () => lookAgain(0),
    sweep,
    async stop() {
      stopped = true
      timer?.cancel()
      await sweeping
    },
  }
}

async function withoutHeld(
  found: readonly EngineItem[],
  stillHeld: ReaperOptions['stillHeld'],
): Promise<readonly EngineItem[]> {
  const bySession = Map.groupBy(found, ({ sessionId }) => sessionId)
  const orphans: EngineItem[] = []
  for (const [sessionId, left] of bySession) {
    const held = new Set(
      (
        await stillHeld(
          sessionId,
          left.map(({ run }) => run),
        )
      ).map(keyOf),
    )
    orphans.push(...left.filter(({ run }) => !held.has(keyOf(run))))
  }
  return orphans.toSorted((a, b) => a.kind.localeCompare(b.kind))
}

export const keyOf = ({ runId, leaseEpoch }: HeldName): string => `${runId}/${leaseEpoch}`
