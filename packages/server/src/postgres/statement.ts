/**
 * The shape of one SQL statement: its prepared name, its text, and the types of its rows and parameters,
 * which exist for the compiler only. Statements are constants in `statements/`; `database.ts` runs them.
 */

export type Statement<Row = unknown, Params extends readonly unknown[] = readonly unknown[]> = {
  /** Name of the prepared statement: unique among all statements, at most 63 bytes. */
  readonly name: string
  readonly text: string
  /**
   * `index`: this statement is made for its indexes, and the planner is told to walk them, in their order
   * (statements/transaction.ts). `hash`: besides, what it joins it joins by hash. Unset: it plans as it sees
   * fit.
   */
  readonly planner?: 'index' | 'hash'
  /** Never set: carries the type of a row. */
  readonly row?: Row
  /** Never set: carries the types of the parameters. */
  readonly params?: Params
}

/** For the last argument of `statement`. */
export const byIndex = { planner: 'index' } as const
export const byHash = { planner: 'hash' } as const

/** Declares a statement, for example `statement<{ id: string }, [tenantId: string]>('job_list', '…')`. */
export function statement<Row, Params extends readonly unknown[] = readonly []>(
  name: string,
  text: string,
  hints: { readonly planner?: 'index' | 'hash' } = {},
): Statement<Row, Params> {
  return { name, text: text.trim(), ...hints }
}
