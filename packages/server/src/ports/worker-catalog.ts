/**
 * What a tenant can see of its workers and of the logs that they write: a part of the catalog (catalog.ts).
 * Instants are epoch ms.
 */
import type { LogLine } from '@belfry/contract'
import type { PageRequest } from './paging.ts'

export interface WorkerRecord {
  readonly id: string
  readonly host: string
  readonly version: string
  readonly queues: readonly string[]
  readonly functions: readonly string[]
  readonly slots: number
  /** Runs that it holds now. */
  readonly held: number
  readonly startedAtMs: number
  readonly heartbeatAtMs: number
  readonly expiresAtMs: number
}

export interface LogChunkRecord {
  readonly attempt: number
  readonly firstLine: number
  readonly lastLine: number
  readonly lines: readonly LogLine[]
  /** Lines after these were dropped. */
  readonly fullAfter: boolean
}

export interface WorkerCatalog {
  /** Workers of functions that are alive. */
  list(page: PageRequest): Promise<readonly WorkerRecord[]>
  /** Chunks that hold lines after the given one, in order; of the newest attempt where it is null. */
  logChunks(
    runId: string,
    attempt: number | null,
    afterLine: number,
    limit: number,
  ): Promise<readonly LogChunkRecord[]>
}
