-- Functions: code in workers of the SDK. A run is claimed by queue and route. `handler` holds the route: the kind for
-- what servers execute, function:<tenant>:<name> for functions, so that the claim index finds the runs of one function
-- of one tenant, and no others.

ALTER TABLE belfry.job DROP CONSTRAINT job_handler_check;
ALTER TABLE belfry.job
  ADD CONSTRAINT job_handler_check CHECK (split_part(handler, ':', 1) IN ('http', 'function')),
  -- nobody else's workers are ever named
  ADD CONSTRAINT job_handler_tenant CHECK (
    handler = 'http' OR starts_with(handler, 'function:' || tenant_id::text || ':')
  );

-- Workers of every queue look for who has something ready; functions are claimed by those who have them.
DROP INDEX belfry.ready_tenant;
CREATE INDEX ready_tenant ON belfry.ready (tenant_id, queue)
  WHERE session_id IS NULL AND handler NOT LIKE 'function:%';

-- What a function answered, and that it called a run off by itself.
ALTER TABLE belfry.attempt ADD COLUMN result jsonb;
ALTER TABLE belfry.attempt DROP CONSTRAINT attempt_reason_check;
ALTER TABLE belfry.attempt ADD CONSTRAINT attempt_reason_check CHECK (
  reason IN ('attempts_exhausted', 'not_retryable', 'outcome_unknown', 'quarantined', 'canceled_by_request',
    'canceled_by_handler', 'overlap')
);
