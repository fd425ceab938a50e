/**
 * Hints between processes by NOTIFY: out of band, never in a transaction that does work, because every
 * notifying commit takes a lock that the whole cluster shares.
 */
import { statement } from '../statement.ts'

/** The channel that every process listens on. */
export const listenHints = 'LISTEN belfry_hint'

/**
 * Sends one hint, unless another process is sending the same one at this very moment: then its notice will
 * do, and no second committer queues up behind the lock that NOTIFY takes.
 */
export const notifyHint = statement<{ sent: boolean }, [payload: string]>(
  'hint_notify',
  `
  SELECT pg_notify('belfry_hint', $1) IS NOT NULL AS sent
  WHERE pg_try_advisory_xact_lock(hashtextextended('belfry.hint:' || $1, 0))
  `,
)
