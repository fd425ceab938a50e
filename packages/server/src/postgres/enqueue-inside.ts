/**
 * Stores runs on a connection of the caller's, inside his transaction: they are there if and only if that
 * commits. Outside a transaction nothing is stored: what is set for one transaction is gone before the next
 * statement, and that is noticed. Keys and gatherings that it takes are locked until it ends: who wants the
 * same one waits for that.
 */
import { BelfryError } from '@belfry/contract'
import type { RunIntake } from '../ports/run-intake.ts'
import { createRunIntake } from './catalog/run-intake.ts'
import type { Transaction } from './database.ts'
import { readCaller, takeScope } from './statements/enqueue-inside.ts'

/** As much of a `pg` client as is needed. */
export interface CallersClient {
  query(text: string, values: unknown[]): Promise<{ rows: unknown[] }>
}

const role = 'belfry_app'

/** Throws `invalid_request` where no transaction is open, and as the driver does. */
export async function insideTransaction<T>(
  client: CallersClient,
  tenantId: string,
  work: (intake: RunIntake) => Promise<T>,
): Promise<T> {
  const query: Transaction['query'] = async <Row>(
    { text }: { readonly text: string },
    values: readonly unknown[],
  ) => (await client.query(text, [...values])).rows as Row[]
  const [before] = await query(readCaller, [])
  await query(takeScope, [role, tenantId])
  const [inside] = await query(readCaller, [])
  if (inside?.role !== role) throw noTransaction()
  const restore = () => query(takeScope, [before?.role ?? 'none', before?.tenant ?? ''])
  const done = await work(createRunIntake({ query }, tenantId)).catch(async (error: unknown) => {
    // after an error of ours the caller may go on. Where the transaction itself has failed this fails too,
    // and what is set in it goes with it
    await restore().catch(() => undefined)
    throw error
  })
  await restore()
  return done
}

function noTransaction(): BelfryError {
  const message = 'has no transaction open; send BEGIN first, and COMMIT afterwards'
  return new BelfryError('invalid_request', `The client to enqueue with ${message}.`, {
    errors: [{ pointer: '/client', message }],
  })
}
