-- Dead letters: runs that ended as failed, as something to be dealt with (domain/error-fingerprint.ts,
-- statements/dead-letters.ts). One row a failed run, written in the transaction that ends it, so that a run that succeeds
-- pays nothing. What the run was and what was tried stays in the history, which is never changed; what people did about
-- it stands here: replayed as a new run, or deleted, that is acknowledged.

CREATE TABLE belfry.dead_letter (
  run_id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  job_id uuid NOT NULL,
  queue text NOT NULL,
  error_code text NOT NULL,
  -- of code and words of the error, without what differs from run to run
  fingerprint text NOT NULL CHECK (fingerprint ~ '^[0-9a-f]{16}$'),
  -- whole milliseconds: lists go on behind one
  failed_at timestamptz NOT NULL CHECK (failed_at = date_trunc('milliseconds', failed_at)),
  state text NOT NULL DEFAULT 'open',
  replayed_as uuid,
  replayed_at timestamptz,
  deleted_at timestamptz,
  CHECK ((replayed_as IS NULL) = (replayed_at IS NULL)),
  CONSTRAINT dead_letter_state_check CHECK (
    state = CASE WHEN deleted_at IS NOT NULL THEN 'deleted' WHEN replayed_at IS NOT NULL THEN 'replayed' ELSE 'open' END
  )
);
-- what is listed, counted and replayed: of a state, of a job in it, of an error in it
CREATE INDEX dead_letter_list ON belfry.dead_letter (tenant_id, state, failed_at, run_id);
CREATE INDEX dead_letter_job ON belfry.dead_letter (tenant_id, state, job_id, failed_at, run_id);
CREATE INDEX dead_letter_fingerprint ON belfry.dead_letter (tenant_id, state, fingerprint, failed_at, run_id);
CREATE INDEX dead_letter_replayed_as ON belfry.dead_letter (replayed_as) WHERE replayed_as IS NOT NULL;

-- Why a person canceled a run, in their words; only where they gave any. The first reason stays.
CREATE TABLE belfry.cancel_note (
  run_id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 512),
  noted_at timestamptz NOT NULL DEFAULT belfry.now()
);

ALTER TABLE belfry.dead_letter ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.cancel_note ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON belfry.dead_letter TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.cancel_note TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.dead_letter TO belfry_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON belfry.cancel_note TO belfry_engine USING (true);
GRANT SELECT, UPDATE (state, replayed_as, replayed_at, deleted_at) ON belfry.dead_letter TO belfry_app;
GRANT SELECT, INSERT, DELETE ON belfry.dead_letter TO belfry_engine;
GRANT SELECT, INSERT ON belfry.cancel_note TO belfry_app;
GRANT SELECT, DELETE ON belfry.cancel_note TO belfry_engine;

ALTER TABLE belfry.run
  DROP CONSTRAINT run_source_check,
  ADD CONSTRAINT run_source_check CHECK (source IN ('schedule', 'manual', 'trigger', 'backfill', 'replay'));

-- Runs that failed before: their words were not looked at, so they are told apart by their code alone. (FORCE would keep
-- the owner from the rows.)
ALTER TABLE belfry.attempt NO FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.run NO FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.dead_letter NO FORCE ROW LEVEL SECURITY;
INSERT INTO belfry.dead_letter (run_id, tenant_id, job_id, queue, error_code, fingerprint, failed_at)
SELECT past.run_id, past.tenant_id, run.job_id, run.queue, coalesce(past.error_code, past.outcome),
  encode(substring(sha256(convert_to(coalesce(past.error_code, past.outcome) || chr(10), 'UTF8')) FROM 1 FOR 8), 'hex'),
  date_trunc('milliseconds', past.ended_at)
FROM belfry.attempt AS past
JOIN belfry.run ON run.tenant_id = past.tenant_id AND run.id = past.run_id
WHERE past.run_state IS NOT NULL AND past.run_state <> 'succeeded' AND past.run_state = 'failed';
ALTER TABLE belfry.attempt FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.run FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.dead_letter FORCE ROW LEVEL SECURITY;
