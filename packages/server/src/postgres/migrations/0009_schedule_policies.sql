-- What a schedule may do beside firing on time: more overlap policies, runs that wait for the run before them, a limit
-- of runs, a pause after failures, sleep, a flexible window, and what becomes of it in the end.

ALTER TABLE belfry.schedule
  DROP CONSTRAINT schedule_overlap_check,
  ADD CONSTRAINT schedule_overlap_check CHECK (
    overlap IN ('skip', 'allow', 'buffer_one', 'buffer_all', 'cancel_other', 'terminate_other')
  ),
  -- a delay of hash(id) mod window at every planned time, where jitter_ms is drawn for each of them; never both
  ADD COLUMN flexible_window_ms integer NOT NULL DEFAULT 0 CHECK (flexible_window_ms BETWEEN 0 AND 86400000),
  ADD CONSTRAINT schedule_one_delay CHECK (jitter_ms = 0 OR flexible_window_ms = 0),
  -- after so many runs it is completed; run_count is counted only while there is a limit, from when that was set
  ADD COLUMN run_limit integer CHECK (run_limit BETWEEN 1 AND 1000000),
  ADD COLUMN run_count integer NOT NULL DEFAULT 0 CHECK (run_count >= 0),
  ADD COLUMN pause_after_failures integer CHECK (pause_after_failures BETWEEN 1 AND 100),
  -- runs before this do not count for pause_after_failures
  ADD COLUMN resumed_at timestamptz,
  -- while paused: planned times after this are not on record yet; a pause that found one due and unfired begins before it.
  -- Null with those that were paused before there was this column: from paused_at on
  ADD COLUMN paused_from timestamptz,
  ADD COLUMN after_completion text NOT NULL DEFAULT 'keep' CHECK (after_completion IN ('keep', 'delete')),
  -- planned times before this are skipped
  ADD COLUMN sleep_until timestamptz,
  ADD COLUMN sleep_reason text CHECK (sleep_reason IS NULL OR sleep_until IS NOT NULL);

-- The window of catchUp counts for the policy `latest` as well from now on. It had no effect there: what was stored must
-- not take runs away. (FORCE would keep the owner from seeing the rows.)
ALTER TABLE belfry.schedule NO FORCE ROW LEVEL SECURITY;
UPDATE belfry.schedule
SET catch_up = jsonb_set(catch_up, '{windowMs}', '31536000000'), version = version + 1
WHERE catch_up ->> 'policy' = 'latest';
ALTER TABLE belfry.schedule FORCE ROW LEVEL SECURITY;

-- what a fire changes of a schedule, and what ends or pauses one
GRANT UPDATE (run_count, deleted_at, paused_reason, paused_at, paused_from) ON belfry.schedule TO belfry_engine;
-- whether one that is made anew under a name was deleted at the minute of a single time
CREATE INDEX schedule_deleted_name ON belfry.schedule (tenant_id, name, deleted_at) WHERE deleted_at IS NOT NULL;

-- A run that waits for the one before it: accepted, and held back until that one has ended. Who ends a run lets go of
-- those that wait for it, in the same transaction; due_at is when the scheduler looks for itself.
-- followed: another run waited for this one at some time. Whoever ends a run need not look for others unless it is set.
ALTER TABLE belfry.delayed
  ADD COLUMN after_run_id uuid,
  ADD COLUMN schedule_id uuid,
  ADD COLUMN followed boolean NOT NULL DEFAULT false,
  ADD CHECK (after_run_id IS NULL OR schedule_id IS NOT NULL);
CREATE INDEX delayed_after ON belfry.delayed (after_run_id) WHERE after_run_id IS NOT NULL;
CREATE INDEX delayed_chain ON belfry.delayed (schedule_id, run_id) WHERE schedule_id IS NOT NULL;
GRANT UPDATE (after_run_id, followed) ON belfry.delayed TO belfry_engine;
GRANT UPDATE (after_run_id, due_at, followed) ON belfry.delayed TO belfry_app;

ALTER TABLE belfry.ready
  ADD COLUMN followed boolean NOT NULL DEFAULT false,
  -- why a cancel was asked for, where it was not a person; becomes the reason of the run's end
  ADD COLUMN cancel_reason text CHECK (cancel_reason IN ('overlap'));
GRANT UPDATE (followed, cancel_reason) ON belfry.ready TO belfry_app;

-- Lets go of the runs that wait for these, which have ended; answers their shards. Called by the statement that ends
-- them, which it costs nothing while nobody waits. Being volatile, it looks with a snapshot of its own: after the rows
-- of `ready` are locked, so that it sees who lined up behind them until then. Strict: null for none.
CREATE FUNCTION belfry.let_followers_go(ended uuid[]) RETURNS smallint[] LANGUAGE plpgsql VOLATILE STRICT AS $$
DECLARE
  shards smallint[];
BEGIN
  WITH follower AS MATERIALIZED (
    SELECT link.run_id
    FROM unnest(ended) AS past (run_id)
    CROSS JOIN LATERAL (
      SELECT delayed.run_id FROM belfry.delayed WHERE delayed.after_run_id = past.run_id OFFSET 0
    ) AS link
    ORDER BY link.run_id
  ), let_go AS (
    UPDATE belfry.delayed SET after_run_id = NULL, due_at = belfry.now()
    WHERE run_id = ANY (ARRAY(SELECT run_id FROM follower)) AND after_run_id = ANY (ended)
    RETURNING shard
  )
  SELECT array_agg(DISTINCT shard) INTO shards FROM let_go;
  RETURN shards;
END
$$;
REVOKE ALL ON FUNCTION belfry.let_followers_go(uuid[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION belfry.let_followers_go(uuid[]) TO belfry_engine;

-- Partitions have these checks from their parent.
ALTER TABLE belfry.occurrence
  -- the calendar that excluded it and why, or the reason that was given for a sleep or a pause
  ADD COLUMN detail text,
  DROP CONSTRAINT occurrence_reason_check,
  ADD CONSTRAINT occurrence_reason_check CHECK (
    reason IN ('overlap', 'buffer_full', 'asleep', 'calendar', 'paused', 'run_limit',
               'catch_up_latest', 'catch_up_none', 'catch_up_window')
  );
ALTER TABLE belfry.run
  DROP CONSTRAINT run_source_check,
  ADD CONSTRAINT run_source_check CHECK (source IN ('schedule', 'manual', 'trigger', 'backfill'));

-- An edit at the very minute of a planned time fires it first, and a resume puts the span of the pause on record: both
-- within the request, for its own tenant.
ALTER POLICY app ON belfry.occurrence WITH CHECK (tenant_id = belfry.tenant_id());
GRANT INSERT ON belfry.occurrence TO belfry_app;
