// What the benches ask of a job engine, ours or another: the same few verbs, so that all are measured by the
// same code. Each engine is opened in a process of its own (player.ts).

/** Where an engine keeps its state; each has a database to itself. */
export interface Place {
  /** Its own database, as the owner of it. */
  readonly databaseUrl: string
  /** The login that owns nothing, for Belfry. */
  readonly runtimeUrl: string
  readonly redisPort: number | null
}

/** `throughput`: the engine's best published settings for many small runs; `latency`: for early starts. */
export type Purpose = 'throughput' | 'latency'

export interface Engine {
  /** Stores so many no-op runs in one call, ready at once. */
  insertMany(count: number): Promise<void>
  /** Stores one run, ready at once; its handler is told the number. */
  insertOne(stampMs: number): Promise<void>
  /** Stores one run that is due at an instant; its handler is told that instant. */
  insertAt(dueMs: number): Promise<void>
  /** The same for many, in one call. */
  insertAllAt(dueMs: readonly number[]): Promise<void>
  /** Puts many runs there by the shortest way, to be worked off later. */
  preload(count: number): Promise<void>
  /** Stores so many schedules that all fire once at an instant. */
  readonly insertSchedules?: (count: number, dueMs: number) => Promise<void>
  /** Begins to execute; `heard` is called in each handler. */
  work(heard: (stampMs: number) => void): Promise<void>
  close(): Promise<void>
}

export interface EngineOptions {
  readonly place: Place
  readonly purpose: Purpose
  /** False: this process only inserts. */
  readonly works: boolean
  /** Runs at a time, where the engine leaves that open. */
  readonly slots: number
}

export type OpenEngine = (options: EngineOptions) => Promise<Engine>

export const engineNames = ['belfry', 'belfry-remote', 'graphile-worker', 'pg-boss', 'bullmq'] as const
export type EngineName = (typeof engineNames)[number]

/** Runs of one call of `insertMany`, the same for all. */
export const insertBatch = 1_000
