/**
 * The end of attempts that succeeded, which most do: the same as completion.ts, with everything left out that
 * a success has no need of. A cancel changes nothing about it, nothing is tried again, and there is no error.
 *
 * One epoch for all: that tells which of them may be ended by the one lookup that deletes them. Nobody else
 * is waited for in a circle: a row that the rescuer has locked goes to whoever comes first, and both take
 * them in the order of their ids, which is that of the index.
 *
 * The times are joined by hash, never by a loop in a loop: with the planner's guess of a handful of rows that
 * would be the plan (statements/transaction.ts).
 */
import { byHash, statement } from '../statement.ts'
import { freeSlots } from './free-slots.ts'

export type SuccessRow = {
  readonly now_ms: number
  /** Null: all of them were ended. */
  readonly ended_run_ids: readonly string[] | null
  readonly timer_shards: readonly number[] | null
  readonly gate_tenants: readonly string[] | null
}

/** Lists are arrays as Postgres reads them, all of one length. Times are epoch ms. */
export const endSuccesses = statement<
  SuccessRow,
  [
    sessionId: string,
    leaseEpoch: number,
    runIds: string,
    startedAtMs: string,
    endedAtMs: string,
    results: string,
  ]
>(
  'belfry_end_successes',
  `
WITH gone AS (
  DELETE FROM belfry.ready
  WHERE run_id = ANY ($3::uuid[]) AND session_id = $1 AND lease_epoch = $2
  RETURNING run_id, attempt, tenant_id, lease_epoch, session_id, followed, slotted
), history AS (
  INSERT INTO belfry.attempt (run_id, number, tenant_id, lease_epoch, session_id, outcome, run_state,
    started_at, ended_at, result)
  SELECT gone.run_id, gone.attempt, gone.tenant_id, gone.lease_epoch, gone.session_id, 'succeeded',
    'succeeded', to_timestamp(ending.started_ms / 1000), to_timestamp(ending.ended_ms / 1000), ending.result
  FROM gone
  JOIN unnest($3::uuid[], $4::float8[], $5::float8[], $6::jsonb[])
    AS ending (run_id, started_ms, ended_ms, result) ON ending.run_id = gone.run_id
)
SELECT date_part('epoch', belfry.now()) * 1000 AS now_ms,
  CASE WHEN (SELECT count(*) FROM gone) < cardinality($3::uuid[]) THEN ARRAY(SELECT run_id FROM gone) END
    AS ended_run_ids,
  (SELECT belfry.let_followers_go(array_agg(run_id), 'succeeded') FROM gone WHERE followed) AS timer_shards,
  ${freeSlots('gone')},
  (SELECT array_agg(DISTINCT tenant_id) FROM gone WHERE slotted) AS gate_tenants`,
  byHash,
)
