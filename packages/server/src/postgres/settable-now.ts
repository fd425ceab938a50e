/**
 * Time that a test sets, on a database of its own (statements/settable-now.ts). It acts as the owner of the
 * database, which only the embedded Postgres of a throw-away data directory gives it.
 */
import pg from 'pg'
import type { ConnectionOptions } from './hosts.ts'
import { makeNowSettable, moveNow, readBusy, readNextDue } from './statements/settable-now.ts'

export interface SettableNow {
  /** Epoch ms; not before the present. */
  move(toMs: number): Promise<void>
  /** When the next planned time, delay or retry is due, epoch ms; null: never. */
  nextDueMs(): Promise<number | null>
  /** Runs that are under way, or could be by these routes and queues. */
  busy(routes: readonly string[], queues: readonly string[]): Promise<number>
  close(): Promise<void>
}

const lockNotAvailable = '55P03'

/** Replaces `belfry.now()`; from now on it stands at `startMs`. */
export async function openSettableNow(connection: ConnectionOptions, startMs: number): Promise<SettableNow> {
  const client = new pg.Client({ ...connection, application_name: 'belfry-clock' })
  client.on('error', () => undefined)
  await client.connect()

  async function moveOnce(toMs: number): Promise<boolean> {
    try {
      await client.query(moveNow.begin)
      for (const text of moveNow.lock) await client.query(text)
      await client.query(moveNow.move, [toMs])
      await client.query(moveNow.commit)
      return true
    } catch (error) {
      await client.query(moveNow.rollBack)
      if (error instanceof pg.DatabaseError && error.code === lockNotAvailable) return false
      throw error
    }
  }
  const move = async (toMs: number): Promise<void> => {
    while (!(await moveOnce(toMs)));
  }

  for (const text of makeNowSettable) await client.query(text)
  await move(startMs)
  return {
    move,
    async nextDueMs() {
      const { rows } = await client.query<{ due_ms: number | null }>(readNextDue)
      return rows[0]?.due_ms ?? null
    },
    async busy(routes, queues) {
      const { rows } = await client.query<{ busy: number }>(readBusy, [routes, queues])
      return rows[0]?.busy ?? 0
    },
    close: () => client.end(),
  }
}
