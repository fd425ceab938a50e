/**
 * Runs stored without asking anything first: what they are made of is a template that was read before, and
 * the statement that stores them looks whether it is still the present one.
 */
import { BelfryError } from '@belfry/contract'
import type { DirectIntake } from '../ports/run-intake.ts'
import { alikeColumns } from './catalog/alike-runs.ts'
import type { Database, Scope } from './database.ts'
import { violatedConstraint } from './database-error.ts'
import type { AlikeRunColumns, AlikeRunsRow } from './statements/run-batch.ts'
import { insertAlikeRuns } from './statements/run-batch.ts'

/** Thrown out of a transaction of several statements, and caught here. */
class Outdated extends Error {}

export function createDirectIntake(db: Pick<Database, 'run' | 'transaction'>): DirectIntake {
  return {
    async insert(tenantId, runs) {
      const scope = { role: 'belfry_app', tenantId } as const
      const columns = alikeColumns(runs, tenantId, true)
      const first = columns.next()
      if (first.done === true) throw new BelfryError('internal', 'There are no runs to be stored.')
      const second = columns.next()
      try {
        const rows =
          second.done === true
            ? await db.run(scope, insertAlikeRuns, first.value)
            : await insertAll(db, scope, [first.value, second.value], columns)
        return rows[0] && { dueAtMs: rows[0].due_ms, limited: rows[0].limited }
      } catch (error) {
        if (error instanceof Outdated) return undefined
        if (violatedConstraint(error)?.endsWith('_pkey') === true) throw storedMeanwhile(error)
        throw error
      }
    },
  }
}

/** All in one transaction, however many statements it takes. */
function insertAll(
  db: Pick<Database, 'transaction'>,
  scope: Scope,
  begun: readonly AlikeRunColumns[],
  rest: Iterable<AlikeRunColumns>,
): Promise<AlikeRunsRow[]> {
  return db.transaction(scope, async ({ query }) => {
    let rows: AlikeRunsRow[] = []
    const insert = async (columns: AlikeRunColumns): Promise<void> => {
      rows = await query(insertAlikeRuns, columns)
      if (rows.length === 0) throw new Outdated()
    }
    for (const columns of begun) await insert(columns)
    for (const columns of rest) await insert(columns)
    return rows
  })
}

/** By a try before, whose answer was lost. */
const storedMeanwhile = (cause: unknown): BelfryError =>
  new BelfryError(
    'serialization_conflict',
    'These runs were stored meanwhile; look before they are sent again.',
    {
      cause,
    },
  )
