-- How long a run may take in all: a deadline for the whole run, with all of its attempts, and a time by which its first
-- attempt must have started. Both count from its due time.

-- Read by whatever makes runs; null: no limit. Up to 30 days, which is more milliseconds than an integer holds.
ALTER TABLE belfry.job
  ADD COLUMN run_deadline_ms bigint CHECK (run_deadline_ms BETWEEN 1000 AND 2592000000),
  ADD COLUMN start_within_ms bigint CHECK (start_within_ms BETWEEN 1000 AND 2592000000);

-- start_by: the run ends as expired when its first attempt has not started by then; null from the first attempt on.
-- run_deadline: no attempt starts after it, and one that runs is cut off at it.
ALTER TABLE belfry.ready
  ADD COLUMN start_by timestamptz,
  ADD COLUMN run_deadline timestamptz;
ALTER TABLE belfry.delayed
  ADD COLUMN start_by timestamptz,
  ADD COLUMN run_deadline timestamptz;

-- For the sweep of runs that wait past their time (statements/expiry.ts): nothing stands in these for runs without.
CREATE INDEX ready_start_by ON belfry.ready (start_by, run_id) WHERE start_by IS NOT NULL AND session_id IS NULL;
CREATE INDEX ready_run_deadline ON belfry.ready (run_deadline, run_id)
  WHERE run_deadline IS NOT NULL AND session_id IS NULL;
CREATE INDEX delayed_start_by ON belfry.delayed (start_by, run_id) WHERE start_by IS NOT NULL;
CREATE INDEX delayed_run_deadline ON belfry.delayed (run_deadline, run_id) WHERE run_deadline IS NOT NULL;

-- Partitions have these checks from their parent.
ALTER TABLE belfry.attempt
  DROP CONSTRAINT attempt_outcome_check,
  ADD CONSTRAINT attempt_outcome_check CHECK (
    outcome IN ('succeeded', 'failed', 'timed_out', 'canceled', 'lost', 'released', 'expired')
  ),
  DROP CONSTRAINT attempt_reason_check,
  ADD CONSTRAINT attempt_reason_check CHECK (
    reason IN ('attempts_exhausted', 'not_retryable', 'outcome_unknown', 'quarantined', 'canceled_by_request',
      'canceled_by_handler', 'overlap', 'deadline_exceeded', 'expired')
  ),
  -- no handler was called
  ADD CONSTRAINT attempt_expired_number CHECK (outcome <> 'expired' OR number = 0);

-- Since when failed runs in a row count for pause_after_failures: the last resume, or the last change of that number.
-- (resumed_at tells a resume from there on, and nothing else. FORCE would keep the owner from the rows.)
ALTER TABLE belfry.schedule ADD COLUMN failures_since timestamptz;
ALTER TABLE belfry.schedule NO FORCE ROW LEVEL SECURITY;
UPDATE belfry.schedule SET failures_since = resumed_at WHERE resumed_at IS NOT NULL;
ALTER TABLE belfry.schedule FORCE ROW LEVEL SECURITY;
