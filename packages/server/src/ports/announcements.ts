/**
 * Announcements: "these runs of this queue may be claimed", carried by Kafka or SQS from a scheduler to one
 * worker among many. They make the queue wide, never right: each may be lost, doubled, late, out of order,
 * or written by somebody else. Who may start what is decided by the claim in Postgres
 * (engine/announced-queue.ts), and what nobody heard of is claimed without them.
 *
 *   announce   by the holder of the queue (engine/announcer.ts), in the order in which runs should start
 *   take       by a worker: nobody else gets these until they are settled, released, or their taker is gone
 *   settle     when the claim is durable, before anything is executed
 */

export interface AnnouncedRun {
  readonly runId: string
  /** Where it stood when it was announced; it is claimed only as long as it stands there. */
  readonly tag: number
}

/** What is sent and taken as one: a message. */
export interface Announcement {
  readonly queue: string
  /** Lowest tag first; `maxRunsOfAnnouncement` at most. */
  readonly runs: readonly AnnouncedRun[]
  /** Those of one key stay in order, as far as the carrier keeps any; unset: they may be spread. */
  readonly orderKey?: string | undefined
}

export const maxRunsOfAnnouncement = 50

export interface TakenAnnouncement extends Announcement {
  /** The carrier's own. */
  readonly receipt: unknown
}

/** The carrier did not do what it was asked to. Whoever gets this goes on without it. */
export class CarrierAway extends Error {
  override readonly name = 'CarrierAway'
}

export interface Announcements {
  /** False: nothing is tried. */
  readonly up: boolean
  /** Grows whenever what was announced before may be gone: it is announced again. */
  readonly generation: number
  /** Queues of one announcer, at most: of more nobody would hear. Unset: as many as it likes. */
  readonly maxQueues?: number | undefined
  /**
   * Resolves when the carrier has them. Answers the queues that it cannot carry now (no such topic, say):
   * what was sent of these is lost. Throws `CarrierAway` where it takes nothing, or may have taken some.
   */
  announce(announcements: readonly Announcement[]): Promise<{ readonly refused: readonly string[] }>
  /** What a worker of these queues hears. Nothing is asked for before its start. */
  open(queues: readonly string[] | '*'): AnnouncementInbox
}

export interface AnnouncementInbox {
  /** False: nothing is heard here, though something may be announced. */
  readonly up: boolean
  /** Resolves soon, whether the carrier is there or not; never rejects. */
  start(): Promise<void>
  /**
   * Waits up to `waitMs` for the first. Only well-formed ones, of queues that are served here; what else
   * there is, the carrier gets rid of by itself. `mostRuns` is what to aim at: the last message may go
   * beyond it. Throws `CarrierAway`.
   */
  take(mostRuns: number, waitMs: number, signal: AbortSignal): Promise<readonly TakenAnnouncement[]>
  /** They are done with, and come no more as far as the carrier can help it. Never rejects. */
  settle(taken: readonly TakenAnnouncement[]): Promise<void>
  /** Somebody else may have them at once. Never rejects. */
  release(taken: readonly TakenAnnouncement[]): Promise<void>
  /** What was taken and not settled is released. Never rejects; ends within two seconds. */
  close(): Promise<void>
}
