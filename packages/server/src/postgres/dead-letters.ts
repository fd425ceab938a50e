/**
 * Puts runs that end as failed among the dead letters, in the transaction that ends them; whoever ends runs
 * as failed calls this after its statement. A batch of ends in which none failed never comes here.
 */
import { errorFingerprint } from '../domain/error-fingerprint.ts'
import type { Transaction } from './database.ts'
import { recordDeadLetters as record } from './statements/dead-letters.ts'

/** A run that this transaction may have ended as failed. */
export interface FailedEnd {
  readonly runId: string
  readonly errorCode: string | null
  readonly errorMessage: string | null
  /** Stands for the code where there is none. */
  readonly outcome: string
}

/** Those that did not fail after all (their lease was lost, their cancel was asked for) are passed over. */
export async function recordDeadLetters(tx: Transaction, failed: readonly FailedEnd[]): Promise<void> {
  if (failed.length === 0) return
  const prints = failed.map((end) => errorFingerprint(end.errorCode ?? end.outcome, end.errorMessage))
  await tx.query(record, [failed.map((end) => end.runId), prints])
}
