/**
 * The shape of one line of `belfry doctor`, and what the files that look share. The command line prints these
 * as they are.
 */
import { BelfryError } from '@belfry/contract'
import type { ZoneDataOnDisk, ZoneSource } from '../ports/zones.ts'

export type DiagnosisStatus = 'ok' | 'warn' | 'fail'

export interface Diagnosis {
  readonly name: string
  readonly status: DiagnosisStatus
  /** What was found, in a sentence. */
  readonly message: string
  /** What to do; null where nothing is to be done. */
  readonly fix: string | null
}

/** The zone data of this machine. */
export interface LocalZones {
  readonly zones: ZoneSource
  readonly onDisk: ZoneDataOnDisk
}

/** The words of an error, and of what caused it where that says more. */
export function wordsOf(error: unknown): string {
  const cause = error instanceof BelfryError ? error.cause : undefined
  if (cause instanceof AggregateError) return cause.errors.map(wordsOf).join(', ')
  if (cause instanceof Error && cause.message !== '') return cause.message
  return error instanceof Error ? error.message : String(error)
}
