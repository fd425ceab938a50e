/**
 * Looks for what nobody told the resolver of (statements/workflow-mending.ts): each call goes on from where
 * the one before it stopped, and begins anew behind the last page.
 */
import type { Database } from './database.ts'
import type { Statement } from './statement.ts'
import type { MendedRow } from './statements/workflow-mending.ts'
import { dropStaleEvents, mendTaskEnds, mendWorkflowRuns } from './statements/workflow-mending.ts'
import { pokeWorkflowGates } from './statements/workflow-gates.ts'

const engine = { role: 'belfry_engine' } as const
/** A million that are alive are walked over in some hours, with a call a minute. */
const pageSize = 5_000
const first = '00000000-0000-0000-0000-000000000000'

/** Answers a function that answers how many events it put on record. */
export function createWorkflowMending(db: Database): () => Promise<number> {
  const walk = (statement: Statement<MendedRow, [afterId: string, limit: number]>) => {
    let afterId = first
    return async (): Promise<number> => {
      const [row] = await db.run(engine, statement, [afterId, pageSize])
      afterId = row?.last_id ?? first
      return row?.mended ?? 0
    }
  }
  const [ends, runs] = [walk(mendTaskEnds), walk(mendWorkflowRuns)]
  return async () => {
    await db.run(engine, dropStaleEvents, [pageSize])
    const count = (await ends()) + (await runs())
    await db.run(engine, pokeWorkflowGates, [])
    return count
  }
}
