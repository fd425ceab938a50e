// A run queue that a real carrier carries, with an announcer beside it, for tests that claim and look at
// once: each claim waits until everything that it may get has been announced here, so that it goes by what
// was announced and not directly.
import { setTimeout as wait } from 'node:timers/promises'
import { type Announcer, createAnnouncer } from '../../packages/server/src/engine/announcer.ts'
import { createAnnouncedQueue } from '../../packages/server/src/engine/announced-queue.ts'
import { shardCount } from '../../packages/server/src/domain/shard.ts'
import type { AnnouncementInbox, Announcements } from '../../packages/server/src/ports/announcements.ts'
import type { Claim, QueueShare, RunQueue } from '../../packages/server/src/ports/run-queue.ts'
import { createPostgresReadyWindows } from '../../packages/server/src/postgres/ready-windows.ts'
import { createPostgresAnnouncedRuns } from '../../packages/server/src/postgres/run-queue.ts'
import { realClock, realRandom } from './real-clock.ts'
import {
  eventually,
  newId,
  recordEvents,
  recordHints,
  type RecordedEvents,
  type RunningFixture,
} from './running.ts'

export const everyShard = {
  heldShards: () => Array.from({ length: shardCount }, (_, shard) => ({ shard, term: 1 })),
}

export interface AnnouncedRig {
  readonly queue: RunQueue
  readonly announcer: Announcer
  readonly events: RecordedEvents
  readonly close: () => Promise<void>
}

/** `queues`: of the worker. Something of each is announced before it listens, so their topics are there. */
export async function openAnnouncedRig(
  fixture: RunningFixture,
  announcements: Announcements,
  queues: readonly string[],
): Promise<AnnouncedRig> {
  const events = recordEvents()
  const db = fixture.database.open()
  const parts = { clock: realClock, random: realRandom, events }
  const stored = createPostgresReadyWindows(db)
  const announcer = createAnnouncer({
    ...parts,
    announcements,
    windows: { ...stored, slots: async () => [{ queues: '*', slots: 1_000 }] },
    elector: everyShard,
    hints: recordHints(),
  })
  const first = { runId: newId(), tag: 0 }
  await announcements.announce(queues.map((queue) => ({ queue, runs: [first] })))
  const heard = new Set<string>()
  const inbox = listening(announcements.open(queues), heard)
  const queue = createAnnouncedQueue({
    ...parts,
    queue: fixture.queue,
    runs: createPostgresAnnouncedRuns(db),
    inbox,
    slots: 1_000,
  })
  await queue.start()
  await eventually(() => inbox.up, 'the inbox is up', 30_000)

  const unclaimed = (shares: readonly QueueShare[]): Promise<readonly string[]> =>
    readUnclaimed(
      fixture,
      shares.filter((share) => queues.includes(share.queue)),
    )

  async function allHeard(shares: readonly QueueShare[]): Promise<void> {
    const isHeard = async () => (await unclaimed(shares)).every((id) => heard.has(id))
    if (await isHeard()) return
    await announcer.runOnce()
    await eventually(isHeard, 'all of it was announced', 15_000)
  }

  /**
   * A double may have been heard, and be done with, before the run was handed back: its turn comes within a
   * second.
   */
  async function claimInTurn(asked: Parameters<RunQueue['claim']>[0]): Promise<Claim> {
    const untilMs = performance.now() + 3_000
    for (;;) {
      await allHeard(asked.shares)
      const claim = await queue.claim(asked)
      for (const run of claim.runs) heard.delete(run.runId)
      const isOver = claim.runs.length > 0 || !claim.alive || asked.routes.length === 0
      if (isOver || performance.now() > untilMs || (await unclaimed(asked.shares)).length === 0) return claim
      await wait(50)
    }
  }

  return { announcer, events, queue: { ...queue, claim: claimInTurn }, close: () => queue.stop() }
}

/** Those that may be claimed now, read anew each time: others claim meanwhile. */
async function readUnclaimed(
  { database }: RunningFixture,
  served: readonly QueueShare[],
): Promise<readonly string[]> {
  const rows = await database.sql<{ run_id: string }>(
    `SELECT ready.run_id FROM belfry.ready
     JOIN unnest($1::text[], $2::float8[], $3::float8[]) AS share(queue, min_tag, max_tag)
       ON share.queue = ready.queue
     WHERE session_id IS NULL AND gate IS NULL AND handler = 'http' AND tag >= min_tag AND tag < max_tag`,
    [
      served.map((share) => share.queue),
      served.map((share) => share.minTag),
      served.map((share) => share.maxTag ?? Infinity),
    ],
  )
  return rows.map((row) => row.run_id)
}

function listening(inbox: AnnouncementInbox, heard: Set<string>): AnnouncementInbox {
  return {
    get up() {
      return inbox.up
    },
    start: () => inbox.start(),
    async take(mostRuns, waitMs, signal) {
      const taken = await inbox.take(mostRuns, waitMs, signal)
      // who waits for these goes on when the queue has them
      setTimeout(() => {
        for (const { runs } of taken) for (const { runId } of runs) heard.add(runId)
      })
      return taken
    },
    settle: (taken) => inbox.settle(taken),
    release: (taken) => inbox.release(taken),
    close: () => inbox.close(),
  }
}
