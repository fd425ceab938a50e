/**
 * The part of a fire (fire.ts) that only some schedules need: runs that wait for the one before them, that
 * are canceled or ended to make room, and a limit of runs.
 *
 *   due            with `waiting`, the runs of the schedule that wait; `live`, how many are alive in all
 *                  (those and the one they wait for); `runs_left` of the limit
 *   planned        in the order of the planned times: what is alive takes the first places, one starts when
 *                  nothing is before it, `capacity` of them wait, what is beyond is skipped
 *   member         runs that may be alive and that the new ones have to do with: the last one, where new ones
 *                  line up behind it; all of the schedule, where they are to make room
 *   alive_ready,   those of them that are, locked: whoever ends one of them meanwhile waits for this fire and
 *   alive_delayed  then finds who waits for it. One that moved in the meantime (`unsure`) is taken for alive;
 *                  who waits for it is looked at again at once, by the scheduler
 *                  (which then ends one that it should have displaced and that is in its retry delay)
 *   displaced      under cancel_other and terminate_other: what does not run yet ends now, what runs is asked
 *                  to cancel, or ends now as well: its row leaves `ready` together with the attempt row, and
 *                  what its worker says later is refused by the epoch
 *   placed         each new run with the one that it waits for, if any; that one is marked as `followed`, so
 *                  that its end looks for those who wait
 */
import { displacedMessage, recheckMs } from './firing.ts'

/** Runs that may wait under buffer_all. */
export const mostWaiting = 1_000

const lastAlive = `coalesce(
             (SELECT true FROM belfry.ready WHERE ready.run_id = found.last_run_id),
             (SELECT true FROM belfry.delayed WHERE delayed.run_id = found.last_run_id),
             false)`

/**
 * The chain of runs of a schedule that wait: each row names the one before it. OFFSET 0 keeps the second
 * condition out of the look-up, which otherwise may be planned as a walk over all that wait for a run.
 */
const chainOf = (schedule: string): string => `
      SELECT link.run_id, link.after_run_id
      FROM (
        SELECT delayed.run_id, delayed.after_run_id FROM belfry.delayed
        WHERE delayed.schedule_id = ${schedule} OFFSET 0
      ) AS link
      WHERE link.after_run_id IS NOT NULL`

const waiting = `(SELECT count(*)::int FROM (${chainOf('found.schedule_id')}) AS chain)`

/** The limits of a run, from its due time and what its job allows; null without a limit. */
export const startBy = `due_at + start_within_ms * interval '1 millisecond'`
export const runDeadline = `due_at + run_deadline_ms * interval '1 millisecond'`

/** Whether schedule `s` names newer zone data than the next time is computed with now, the parameter. */
export const computedBehind = (dataVersion: string): string =>
  `(s.zone <> 'UTC' AND s.zone_data_version COLLATE "C" > ${dataVersion}::text)`

export const dueWithPolicies = (dataVersion: string): string => `
  known AS MATERIALIZED (
    SELECT found.schedule_id, found.tenant_id, found.next_scheduled_for, found.next_due_at, found.last_run_id,
           s.job_id, s.input, j.version AS job_version, j.queue, j.handler, j.priority, j.attempt_timeout_ms,
           j.start_within_ms, j.run_deadline_ms, j.limited, s.overlap, s.run_limit - s.run_count AS runs_left,
           ${computedBehind(dataVersion)} AS behind,
           CASE s.overlap WHEN 'buffer_one' THEN 1 WHEN 'buffer_all' THEN ${mostWaiting} END AS capacity,
           ${lastAlive} AS last_alive,
           CASE WHEN s.overlap IN ('skip', 'allow') THEN 0 ELSE ${waiting} END AS waiting
    FROM found
    JOIN belfry.schedule AS s
      ON s.id = found.schedule_id AND s.tenant_id = found.tenant_id AND s.version = found.version
    JOIN belfry.job AS j ON j.id = s.job_id AND j.tenant_id = s.tenant_id
  ),
  due AS MATERIALIZED (
    SELECT known.*, waiting + (waiting > 0 OR last_alive)::int AS live FROM known
  ),`

export const plannedWithPolicies = (given: string): string => `
  decided AS MATERIALIZED (
    SELECT due.*, o.scheduled_ms, o.due_ms, o.run_id, o.detail, o.missed_count, o.tag,
           o.outcome AS said_outcome,
           CASE
             WHEN o.outcome <> 'ran' THEN o.reason
             WHEN due.overlap = 'skip' AND due.last_alive THEN 'overlap'
             WHEN due.live + o.place - 1 > due.capacity
               THEN CASE due.overlap WHEN 'buffer_one' THEN 'overlap' ELSE 'buffer_full' END
             WHEN o.place > due.runs_left THEN 'run_limit'
           END AS reason
    FROM (
      SELECT o.*, row_number() OVER (PARTITION BY o.schedule_id, o.outcome ORDER BY o.scheduled_ms) AS place
      FROM ${given}
    ) AS o
    JOIN due ON due.schedule_id = o.schedule_id
  ),
  planned AS MATERIALIZED (
    SELECT decided.schedule_id, decided.tenant_id, decided.job_id, decided.input, decided.job_version,
           decided.queue, decided.handler, decided.priority, decided.attempt_timeout_ms,
           decided.start_within_ms, decided.run_deadline_ms, decided.limited, decided.overlap,
           decided.capacity, decided.reason, decided.detail, decided.missed_count, decided.tag,
           to_timestamp(scheduled_ms / 1000) AS scheduled_for,
           least(to_timestamp(due_ms / 1000), belfry.now()) AS due_at,
           CASE WHEN said_outcome = 'ran' AND reason IS NOT NULL THEN 'skipped'
                ELSE said_outcome END AS outcome,
           CASE WHEN reason IS NULL THEN run_id END AS run_id
    FROM decided
  ),`

const members = `
  acting AS MATERIALIZED (
    SELECT due.* FROM due
    WHERE due.overlap NOT IN ('skip', 'allow') AND due.schedule_id IN (SELECT schedule_id FROM started)
  ),
  tail AS MATERIALIZED (
    SELECT acting.schedule_id, acting.capacity,
           CASE WHEN acting.last_alive THEN acting.last_run_id
                WHEN acting.waiting > 0 THEN (
                  SELECT chain.run_id FROM (${chainOf('acting.schedule_id')}) AS chain
                  ORDER BY chain.run_id DESC LIMIT 1)
           END AS run_id
    FROM acting
  ),
  member AS MATERIALIZED (
    SELECT named.schedule_id, named.run_id,
           coalesce(
             (SELECT true FROM belfry.ready WHERE ready.run_id = named.run_id),
             (SELECT true FROM belfry.delayed WHERE delayed.run_id = named.run_id),
             false) AS seen
    FROM (
      SELECT schedule_id, run_id FROM tail WHERE run_id IS NOT NULL
      UNION
      SELECT acting.schedule_id, part.run_id
      FROM acting
      CROSS JOIN LATERAL (${chainOf('acting.schedule_id')}) AS link
      CROSS JOIN LATERAL (VALUES (link.run_id), (link.after_run_id)) AS part (run_id)
      WHERE acting.capacity IS NULL
    ) AS named
  ),
  alive_ready AS MATERIALIZED (
    SELECT member.schedule_id, locked.*
    FROM (SELECT * FROM member ORDER BY run_id) AS member
    CROSS JOIN LATERAL (
      SELECT ready.run_id, ready.tenant_id, ready.job_id, ready.queue, ready.session_id, ready.claimed_at,
             ready.attempt, ready.lease_epoch, ready.slotted, ready.followed
      FROM belfry.ready WHERE ready.run_id = member.run_id
      FOR UPDATE
    ) AS locked
  ),
  alive_delayed AS MATERIALIZED (
    SELECT member.schedule_id, locked.*
    FROM (
      SELECT * FROM member WHERE run_id NOT IN (SELECT run_id FROM alive_ready) ORDER BY run_id
    ) AS member
    CROSS JOIN LATERAL (
      SELECT delayed.run_id, delayed.tenant_id, delayed.job_id, delayed.queue, delayed.lease_epoch,
             delayed.followed
      FROM belfry.delayed WHERE delayed.run_id = member.run_id
      FOR UPDATE
    ) AS locked
  ),
  unsure AS MATERIALIZED (
    SELECT member.schedule_id, member.run_id
    FROM member
    WHERE member.seen AND member.run_id NOT IN (SELECT run_id FROM alive_ready)
      AND member.run_id NOT IN (SELECT run_id FROM alive_delayed)
  ),`

const displacing = `
  displaced AS MATERIALIZED (
    SELECT alive.*, acting.overlap = 'terminate_other' OR alive.session_id IS NULL AS ends
    FROM (
      SELECT schedule_id, run_id, tenant_id, job_id, queue, session_id, claimed_at, attempt, lease_epoch,
             slotted, followed, true AS in_ready
      FROM alive_ready
      UNION ALL
      SELECT schedule_id, run_id, tenant_id, job_id, queue, NULL, NULL, 0, lease_epoch, false, followed, false
      FROM alive_delayed
    ) AS alive
    JOIN acting ON acting.schedule_id = alive.schedule_id
    WHERE acting.overlap IN ('cancel_other', 'terminate_other')
  ),
  asked AS (
    UPDATE belfry.ready
    SET followed = true,
        cancel_reason = CASE WHEN cancel_requested_at IS NULL THEN 'overlap' ELSE cancel_reason END,
        cancel_requested_at = coalesce(cancel_requested_at, belfry.now())
    WHERE run_id = ANY (ARRAY(SELECT run_id FROM displaced WHERE NOT ends))
  ),
  gone_ready AS (
    DELETE FROM belfry.ready WHERE run_id = ANY (ARRAY(SELECT run_id FROM displaced WHERE ends AND in_ready))
  ),
  gone_delayed AS (
    DELETE FROM belfry.delayed
    WHERE run_id = ANY (ARRAY(SELECT run_id FROM displaced WHERE ends AND NOT in_ready))
  ),
  history AS (
    INSERT INTO belfry.attempt
      (run_id, number, tenant_id, lease_epoch, session_id, outcome, run_state, reason, started_at, error_code,
       error_message)
    SELECT run_id, CASE WHEN session_id IS NULL THEN 0 ELSE attempt END, tenant_id, lease_epoch, session_id,
           'canceled', 'canceled', 'overlap', coalesce(claimed_at, belfry.now()), 'canceled',
           '${displacedMessage}'
    FROM displaced WHERE ends
  ),`

const placing = `
  before AS MATERIALIZED (
    SELECT tail.schedule_id,
           CASE WHEN tail.capacity IS NOT NULL THEN tail.run_id
                ELSE coalesce(moving.run_id, ending.run_id) END AS run_id,
           moving.run_id IS NOT NULL AS unsure
    FROM tail
    LEFT JOIN (
      SELECT DISTINCT ON (schedule_id) schedule_id, run_id FROM unsure ORDER BY schedule_id
    ) AS moving ON moving.schedule_id = tail.schedule_id
    LEFT JOIN (
      SELECT DISTINCT ON (schedule_id) schedule_id, run_id FROM displaced WHERE NOT ends ORDER BY schedule_id
    ) AS ending ON ending.schedule_id = tail.schedule_id
  ),
  placed AS MATERIALIZED (
    SELECT started.*, before.unsure,
           before.schedule_id IS NOT NULL AND lead(started.run_id) OVER chain IS NOT NULL AS followed,
           CASE WHEN before.schedule_id IS NOT NULL
             THEN coalesce(lag(started.run_id) OVER chain, before.run_id) END AS after_run_id
    FROM started
    LEFT JOIN before ON before.schedule_id = started.schedule_id
    WINDOW chain AS (PARTITION BY started.schedule_id ORDER BY started.scheduled_for)
  ),
  followed_ready AS (
    UPDATE belfry.ready SET followed = true
    WHERE NOT followed AND run_id = ANY (ARRAY(
      SELECT alive_ready.run_id FROM alive_ready
      JOIN before ON before.run_id = alive_ready.run_id
      WHERE alive_ready.run_id NOT IN (SELECT run_id FROM displaced)
    ))
  ),
  followed_delayed AS (
    UPDATE belfry.delayed SET followed = true
    WHERE NOT followed AND run_id = ANY (ARRAY(
      SELECT alive_delayed.run_id FROM alive_delayed
      JOIN before ON before.run_id = alive_delayed.run_id
      WHERE alive_delayed.run_id NOT IN (SELECT run_id FROM displaced)
    ))
  ),
  new_delayed AS (
    INSERT INTO belfry.delayed
      (run_id, tenant_id, job_id, job_version, due_at, shard, queue, handler, priority, timeout_ms,
       lease_epoch, attempt, crash_count, failure_count, after_run_id, schedule_id, followed,
       start_by, run_deadline)
    SELECT run_id, tenant_id, job_id, job_version,
           belfry.now() + CASE WHEN unsure THEN interval '0' ELSE interval '${recheckMs} milliseconds' END,
           belfry.shard_of(run_id), queue, handler, priority, attempt_timeout_ms, 0, 0, 0, 0, after_run_id,
           schedule_id, followed, ${startBy}, ${runDeadline}
    FROM placed WHERE after_run_id IS NOT NULL
  ),`

export const otherRuns = `${members}${displacing}${placing}`
