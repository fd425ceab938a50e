// Time that a test moves, for schedulers on a real database: the clock of the process and `belfry.now()` go
// together, step by step from timer to timer, so that hours pass in moments.
import { type SchedulingFixture, until } from './scheduling.ts'
import { createVirtualClock, type VirtualClock } from './virtual-clock.ts'

export type VirtualTime = {
  readonly clock: VirtualClock
  /**
   * Moves both clocks on to the next timer of the process, or by `ms`, and waits until all of it sleeps
   * again.
   */
  readonly pass: (ms: number) => Promise<void>
  /** Moves both at once, as if the process had been stopped meanwhile. */
  readonly jump: (ms: number) => Promise<void>
  /** Waits until elector and scheduler each wait for their next round; the third timer ends trust. */
  readonly asleep: () => Promise<void>
}

export async function useVirtualTime(
  fixture: Pick<SchedulingFixture, 'database'>,
  startMs: number,
): Promise<VirtualTime> {
  const { database } = fixture
  const clock = createVirtualClock(startMs)
  let nowMs = startMs
  const asleep = (): Promise<void> => until('all to sleep', () => clock.waiting() === 3)
  const jump = async (ms: number): Promise<void> => {
    nowMs += ms
    await database.setNow(new Date(Math.ceil(nowMs)))
    await clock.advance(ms)
    await asleep()
  }
  await database.useVirtualNow(new Date(startMs))
  return {
    clock,
    asleep,
    jump,
    async pass(ms) {
      const endMs = nowMs + ms
      while (nowMs < endMs) {
        const toTimerMs = clock.nextTimerMs() - clock.monotonicMs()
        await jump(Math.max(0.001, Math.min(endMs - nowMs, toTimerMs)))
      }
    },
  }
}
