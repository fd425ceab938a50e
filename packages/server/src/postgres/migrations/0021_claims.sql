-- A claim writes less. It changes the row of a run in place (a heap-only update): that takes that no index knows what it
-- changes. So what a session holds stands in two places (docs/decisions/0016-claims-in-place.md):
--
--   claim            fresh ones: a row for each claim, job and so on, with the runs that it took. It goes when all of
--                    them have ended, or with the next round of the rescuer, which settles those that are still held
--   ready_held       settled ones: `settled_by` says so in the row itself
--
-- A run stands in a claim that it has left long since, or in two of one session; what counts is its row in `ready`.
--
-- INVARIANT, at any instant: a row of `ready` with a session_id has it in settled_by as well, or stands in a
-- row of `claim` of that session. A row with neither is seen by no heartbeat and no rescuer. (The rescuer's sweep
-- heals one, a minute after its claim: statements of the version before leave such rows.)
CREATE TABLE belfry.claim (
  session_id uuid NOT NULL,
  tenant_id uuid NOT NULL,
  -- of the session, so that it can say which are over; 0: it does not keep count
  number bigint NOT NULL,
  -- most are over before the rescuer needs to settle them
  claimed_at timestamptz NOT NULL DEFAULT belfry.now(),
  run_ids uuid[] NOT NULL
) WITH (
  -- 500 ids stay in the row as they are
  toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500
);
CREATE INDEX claim_of ON belfry.claim (session_id, number);
CREATE INDEX claim_tenant ON belfry.claim (tenant_id);

-- The session again, from the rescuer's next rounds on: only then do indexes know that the run is held. No CHECK
-- says that it is the same: what the version before gives back keeps it, until the sweep heals that. Meanwhile
-- the run waits, and counts as held by nobody (statements/held.ts, rescue.ts compare the two).
ALTER TABLE belfry.ready ADD COLUMN settled_by uuid;

-- FORCE would keep the owner from the rows.
ALTER TABLE belfry.ready NO FORCE ROW LEVEL SECURITY;
UPDATE belfry.ready SET settled_by = session_id WHERE session_id IS NOT NULL;
ALTER TABLE belfry.ready FORCE ROW LEVEL SECURITY;

DROP INDEX belfry.ready_claim, belfry.ready_held, belfry.ready_tenant, belfry.ready_list, belfry.ready_start_by,
  belfry.ready_run_deadline, belfry.ready_opened;
CREATE INDEX ready_claim ON belfry.ready (queue, handler, tag, run_id) WHERE settled_by IS NULL AND gate IS NULL;
CREATE INDEX ready_held ON belfry.ready (settled_by, run_id) WHERE settled_by IS NOT NULL;
CREATE INDEX ready_tenant ON belfry.ready (tenant_id, queue)
  WHERE settled_by IS NULL AND gate IS NULL AND handler NOT LIKE 'function:%';
CREATE INDEX ready_list ON belfry.ready (tenant_id, run_id) WHERE settled_by IS NULL;
CREATE INDEX ready_start_by ON belfry.ready (start_by, run_id) WHERE start_by IS NOT NULL AND settled_by IS NULL;
CREATE INDEX ready_run_deadline ON belfry.ready (run_deadline, run_id)
  WHERE run_deadline IS NOT NULL AND settled_by IS NULL;
CREATE INDEX ready_opened ON belfry.ready (tenant_id, run_id) WHERE slotted AND settled_by IS NULL;
-- The claimed row is a little longer, and both stand on one page.
ALTER TABLE belfry.ready SET (fillfactor = 45);

ALTER TABLE belfry.claim ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON belfry.claim FOR SELECT TO belfry_app USING (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.claim TO belfry_engine USING (true) WITH CHECK (true);
GRANT SELECT ON belfry.claim TO belfry_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON belfry.claim TO belfry_engine;
