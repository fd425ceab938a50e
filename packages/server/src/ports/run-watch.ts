/**
 * What is read for those who follow runs (engine/run-watcher.ts): one query for all of them together. As the
 * engine, which sees all tenants: whose a run is, is checked before it is followed.
 */
import type { LogCursor, RunReason, TerminalRunState } from '@belfry/contract'
import type { Standing } from '../domain/run-insight/explain-run.ts'
import type { LogChunkRecord } from './worker-catalog.ts'

/** Null: nothing of the log is wanted, only the end of the run. */
export interface WatchedPlace {
  readonly runId: string
  readonly after: LogCursor | null
}

export interface RunEnd {
  readonly state: TerminalRunState
  readonly reason: RunReason | null
}

/** Chunks that hold lines behind the place, as many as one page takes, and the end where it has come. */
export interface RunNews {
  readonly chunks: readonly LogChunkRecord[]
  /** There are further ones already. */
  readonly more: boolean
  readonly end: RunEnd | null
}

export interface RunWatchStore {
  /** Where a live run stands in its queue, or who runs it; undefined where it stands in no queue. */
  standing(runId: string): Promise<Standing | undefined>
  /** One answer a place, in their order; undefined where there is nothing new. */
  look(places: readonly WatchedPlace[]): Promise<readonly (RunNews | undefined)[]>
}
