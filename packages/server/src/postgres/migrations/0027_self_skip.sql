-- A function may say that there is nothing for it to do: its attempt ends as skipped, and so does its run.
-- Until now only runs that never had an attempt were skipped.
ALTER TABLE belfry.attempt DROP CONSTRAINT attempt_skipped_number;

-- Partitions have this check from their parent. The list is whole.
ALTER TABLE belfry.attempt
  DROP CONSTRAINT attempt_reason_check,
  ADD CONSTRAINT attempt_reason_check CHECK (
    reason IN ('attempts_exhausted', 'not_retryable', 'outcome_unknown', 'quarantined', 'canceled_by_request',
      'canceled_by_handler', 'overlap', 'deadline_exceeded', 'expired', 'concurrency_limit', 'replaced',
      'dependency_failed', 'dependency_skipped', 'skipped_by_handler')
  );
