/**
 * Who is there: each process keeps a row of its own, for people and for those who scale workers. Nothing is
 * decided by these rows; they may be late or missing.
 */

/** `servers`: workers of servers, which call targets. `functions`: those that run functions of a tenant. */
export type WorkerKind = 'servers' | 'functions'

/** Attempts of a tenant's runs in a queue that ended. */
export interface PaceEntry {
  readonly tenantId: string
  readonly queue: string
  readonly kind: WorkerKind
  readonly attempts: number
  readonly busyMs: number
}

/** A part that this process does without at present. */
export interface PartFault {
  readonly part: string
  readonly state: string
  readonly fault: string | null
  /** Since when, by the clock of the database, epoch ms. */
  readonly since_ms: number
}

export interface Skew {
  readonly ms: number
  /** The most that it may be wrong by, ms. */
  readonly errorMs: number
}

export interface NodeReport {
  readonly id: string
  readonly host: string
  readonly version: string
  readonly roles: readonly string[]
  /** Wall clock of this process minus that of the database; null: it has not looked yet. */
  readonly skew: Skew | null
  /** Largest lateness of a fire lately; null: nothing was fired. */
  readonly lagMs: number | null
  /** Of a worker that calls targets. */
  readonly worker: {
    readonly queues: readonly string[]
    readonly slots: number
    readonly busy: number
  } | null
  readonly parts: readonly PartFault[]
}

export interface NodeRecords {
  /** Enters the process, or renews its row; `lifeMs` later it counts as silent. */
  report(node: NodeReport, lifeMs: number): Promise<{ readonly nowMs: number }>
  notePace(entries: readonly PaceEntry[]): Promise<void>
  /** Takes the process off the list. */
  leave(nodeId: string): Promise<void>
  /** Forgets processes that have been silent for long, and queues in which nothing ends any more. */
  forget(): Promise<void>
}
