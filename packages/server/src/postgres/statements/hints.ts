/**
 * Hints between processes by NOTIFY: out of band, never in a transaction that does work, because every
 * notifying commit takes a lock that the whole cluster shares.
 */
import { statement } from '../statement.ts'

/** The channel that every process listens on. */
export const listenHints = 'LISTEN belfry_hint'

/**
 * Sends one hint, unless another process is sending the same topic and key at this very moment: then no
 * second committer queues up behind the lock that NOTIFY takes, and the answer is empty. It needs no right of
 * any role. Nobody hears of it before its commit, which writes nothing that would be missed, so it does not
 * wait for the disk.
 */
export const notifyHint = statement<{ sent: boolean }, [senderId: string, hint: string]>(
  'hint_notify',
  `
  SELECT pg_notify('belfry_hint', $1::text || ' ' || $2::text) IS NOT NULL
           AND set_config('synchronous_commit', 'off', true) IS NOT NULL AS sent
  WHERE pg_try_advisory_xact_lock(hashtextextended('belfry.hint:' || $2::text, 0))
  `,
)
