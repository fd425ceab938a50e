// The database as one node of a simulated world sees it. Each call goes through the production door
// (postgres/database.ts) in steps: a statement, or the opening and the end of a transaction. Between any two
// of them everything else may happen, also the death of the node: then what it had open is rolled back, as
// the server does when a connection is gone. Statements of one transaction keep their order.
import { BelfryError } from '@belfry/contract'
import type { Database, Transaction } from '../../../packages/server/src/postgres/database.ts'

export interface StepSender {
  /** Does `work` when its turn comes, if it comes. The answer of a node that is dead never settles. */
  readonly send: <Result>(step: Step, work: () => Promise<Result>) => Promise<Result>
  /** Calls `listener` when the node dies, until the returned function is called. */
  readonly onDeath: (listener: () => void) => () => void
  /** Does `work` some time later, whoever is dead. */
  readonly afterwards: (work: () => Promise<unknown>) => void
}

export interface Step {
  /** Of the statement, or `begin`, `commit`, `rollback`. */
  readonly name: string
  /** Part of a transaction of several statements. */
  readonly inside: boolean
}

export const lostConnection = (): BelfryError =>
  new BelfryError('database_unavailable', 'The connection to the database of this world is lost.')

export function steppedDatabase(db: Database, sender: StepSender): Database {
  const alone = <Result>(name: string, work: () => Promise<Result>): Promise<Result> =>
    sender.send({ name, inside: false }, work)
  return {
    ...db,
    run: (scope, statement, params) => alone(statement.name, () => db.run(scope, statement, params)),
    asLogin: (statement, params, timeoutMs) =>
      alone(statement.name, () => db.asLogin(statement, params, timeoutMs)),
    ping: () => alone('ping', () => db.ping()),
    async transaction(scope, work) {
      const stepped = await openStepped(db, sender, scope)
      try {
        const result = await work(stepped.door)
        await stepped.commit()
        return result
      } catch (error) {
        await stepped.rollBack()
        throw error
      }
    },
    close: async () => undefined,
  }
}

interface Stepped {
  readonly door: Transaction
  readonly commit: () => Promise<void>
  /** Does nothing once the end has been sent. */
  readonly rollBack: () => Promise<void>
}

async function openStepped(
  db: Database,
  sender: StepSender,
  scope: Parameters<Database['transaction']>[0],
): Promise<Stepped> {
  const end = Promise.withResolvers<void>()
  let over: Promise<unknown> = Promise.resolve()
  /** Of the statement that was sent last. */
  let answered: Promise<unknown> = Promise.resolve()
  let ended = false
  // where nothing was opened, nobody hears of its end
  end.promise.catch(() => undefined)

  function finish(how: 'commit' | 'rollback'): Promise<unknown> {
    ended = true
    forget()
    if (how === 'commit') end.resolve()
    else end.reject(lostConnection())
    return how === 'commit' ? over : over.catch(() => undefined)
  }
  const forget = sender.onDeath(() => {
    void answered.then(() => sender.afterwards(() => finish('rollback')))
  })
  const begun = sender.send({ name: 'begin', inside: true }, () => {
    const opened = Promise.withResolvers<Transaction>()
    over = db.transaction(scope, async (real) => {
      opened.resolve(real)
      await end.promise
    })
    over.catch(opened.reject)
    return opened.promise
  })
  const tx = await begun.catch((error: unknown) => {
    sender.afterwards(() => finish('rollback'))
    throw error
  })

  let turn: Promise<unknown> = Promise.resolve()
  const query: Transaction['query'] = (statement, params) => {
    const mine = turn.then(() =>
      sender.send({ name: statement.name, inside: true }, () => {
        const answer = tx.query(statement, params)
        answered = answer.catch(() => undefined)
        return answer
      }),
    )
    turn = mine
    mine.catch(() => undefined)
    return mine
  }
  return {
    door: { query, atEnd: (statement, params) => tx.atEnd(statement, params) },
    commit: async () => void (await sender.send({ name: 'commit', inside: true }, () => finish('commit'))),
    async rollBack() {
      if (ended) return
      await sender.send({ name: 'rollback', inside: true }, () => finish('rollback'))
    },
  }
}
