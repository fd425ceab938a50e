/**
 * Stores a run on a connection of the caller's, inside his transaction: it is there if and only if that
 * commits. Outside a transaction nothing is stored: what is set for one transaction is gone before the next
 * statement, and that is noticed.
 */
import { BelfryError } from '@belfry/contract'
import type { NewRun } from '../ports/catalog.ts'
import { runColumns } from './catalog/run-catalog.ts'
import type { Statement } from './statement.ts'
import { readCaller, takeScope } from './statements/enqueue-inside.ts'
import { insertDelayedRun, insertReadyRun } from './statements/runs.ts'

/** As much of a `pg` client as is needed. */
export interface CallersClient {
  query(text: string, values: unknown[]): Promise<{ rows: unknown[] }>
}

const role = 'belfry_app'

/** Throws `invalid_request` where no transaction is open, and as the driver does. */
export async function enqueueInside(client: CallersClient, tenantId: string, run: NewRun): Promise<void> {
  const send = async <Row>({ text }: Statement<Row>, values: readonly unknown[]): Promise<Row[]> =>
    (await client.query(text, [...values])).rows as Row[]
  const [before] = await send(readCaller, [])
  await send(takeScope, [role, tenantId])
  const [inside] = await send(readCaller, [])
  if (inside?.role !== role) throw noTransaction()
  const columns = runColumns(run, tenantId)
  const { start } = run
  if (start.kind === 'ready') await send(insertReadyRun, [...columns, start.tag])
  else await send(insertDelayedRun, columns)
  await send(takeScope, [before?.role ?? 'none', before?.tenant ?? ''])
}

function noTransaction(): BelfryError {
  const message = 'has no transaction open; send BEGIN first, and COMMIT afterwards'
  return new BelfryError('invalid_request', `The client to enqueue with ${message}.`, {
    errors: [{ pointer: '/client', message }],
  })
}
