-- The gate: limits of concurrency and rate, pools, and pauses (postgres/gate/, docs/decisions/0015-gate.md). A run that
-- some limit may hold stands in `ready` with a gate, and is not claimed until the gatekeeper opens it. Who has no limits
-- has no gate, and pays a look at one boolean of the job.
--
--   ready.gate        null: may be claimed. Else its group: <job>/<key>/<rate key>/<queue>. All runs of a group have the
--                     same limits, so that only the first of them need be looked at
--   ready.gate_seen   false: the gatekeeper has yet to take notice of it. So an arrival is on record with the run itself.
--                     True without a gate: it was let in
--   ready.slotted     true: it holds slots. Whoever takes the row out of `ready` frees them in the same statement, by
--                     belfry.free_slots, so a process that dies leaks none
--   slot              one row a run and limit. `freed` ones count no more; the gatekeeper deletes them, and lets in who
--                     waits for that limit. So the end of a run is on record too, and no hint is needed to find it
--   gate_group        what holds a group that has somebody waiting. Written by gatekeepers alone, one at a time a tenant
--   bucket            tokens of a rate limit as they were at `at`
--   regate            limits of this tenant were changed; the gatekeeper walks over what waits and what runs

ALTER TABLE belfry.ready
  ADD COLUMN gate text,
  ADD COLUMN gate_seen boolean NOT NULL DEFAULT false,
  ADD COLUMN slotted boolean NOT NULL DEFAULT false;

-- What may be claimed, as before but for the gate.
DROP INDEX belfry.ready_claim;
CREATE INDEX ready_claim ON belfry.ready (queue, handler, tag, run_id) WHERE session_id IS NULL AND gate IS NULL;
DROP INDEX belfry.ready_tenant;
CREATE INDEX ready_tenant ON belfry.ready (tenant_id, queue)
  WHERE session_id IS NULL AND gate IS NULL AND handler NOT LIKE 'function:%';
-- In these stands nothing of who has no limits.
CREATE INDEX ready_gate ON belfry.ready (gate, tag, run_id) WHERE gate IS NOT NULL;
CREATE INDEX ready_arrived ON belfry.ready (tenant_id, gate) WHERE gate IS NOT NULL AND NOT gate_seen;
CREATE INDEX ready_held_queue ON belfry.ready (tenant_id, queue) WHERE gate IS NOT NULL;
CREATE INDEX ready_opened ON belfry.ready (tenant_id, run_id) WHERE slotted AND session_id IS NULL;

ALTER TABLE belfry.ready
  DROP CONSTRAINT ready_cancel_reason_check,
  ADD CONSTRAINT ready_cancel_reason_check CHECK (cancel_reason IN ('overlap', 'replaced'));

CREATE TABLE belfry.slot (
  run_id uuid NOT NULL,
  -- tenant | job:<id> | key:<job>:<hash> | pool:<id>
  limit_key text NOT NULL,
  tenant_id uuid NOT NULL,
  weight smallint NOT NULL CHECK (weight > 0),
  freed boolean NOT NULL DEFAULT false,
  opened_at timestamptz NOT NULL DEFAULT belfry.now(),
  PRIMARY KEY (run_id, limit_key)
);
CREATE INDEX slot_used ON belfry.slot (tenant_id, limit_key) INCLUDE (weight, run_id) WHERE NOT freed;
CREATE INDEX slot_freed ON belfry.slot (tenant_id) WHERE freed;

-- Frees what these runs hold, which leave `ready` or go back behind the gate in the statement that calls it. Being
-- volatile, it looks with a snapshot of its own: one that is taken after the rows of `ready` are locked, so that it sees
-- slots too that came with `slotted` while the statement waited for them. Strict: null for none. (A look for `NOT freed`
-- might be planned as a walk over all slots of the tenant.)
CREATE FUNCTION belfry.free_slots(runs uuid[]) RETURNS void LANGUAGE plpgsql VOLATILE STRICT AS $$
BEGIN
  UPDATE belfry.slot SET freed = true WHERE run_id = ANY (runs);
END
$$;
REVOKE ALL ON FUNCTION belfry.free_slots(uuid[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION belfry.free_slots(uuid[]) TO belfry_app, belfry_engine;

CREATE TABLE belfry.gate_group (
  gate text PRIMARY KEY,
  tenant_id uuid NOT NULL,
  -- of its first run when it was last looked at
  head_tag double precision NOT NULL,
  -- the limit that holds it; null: to be looked at, from look_at on
  waits_on text,
  look_at timestamptz NOT NULL DEFAULT belfry.now(),
  -- null, or how it is held where no limit is: paused_job, paused_queue, rate, unclaimed
  held_by text
);
CREATE INDEX gate_group_parked ON belfry.gate_group (tenant_id, waits_on, head_tag, gate) WHERE waits_on IS NOT NULL;
CREATE INDEX gate_group_due ON belfry.gate_group (look_at, tenant_id) WHERE waits_on IS NULL;
-- One expression: an index on the two columns would be taken, and walked, by statements that name either.
CREATE INDEX gate_group_walk ON belfry.gate_group ((tenant_id::text || '/' || gate) COLLATE "C");
CREATE INDEX gate_group_first ON belfry.gate_group (tenant_id, head_tag, gate) WHERE waits_on IS NULL;

CREATE TABLE belfry.bucket (
  tenant_id uuid NOT NULL,
  -- job:<id> | key:<job>:<hash> | pool:<id>
  limit_key text NOT NULL,
  tokens double precision NOT NULL,
  at timestamptz NOT NULL,
  -- when it is full again and the row says nothing; it is deleted some time later
  full_at timestamptz NOT NULL,
  -- while some wait for it: when it has a whole token again
  look_at timestamptz,
  PRIMARY KEY (tenant_id, limit_key)
);
CREATE INDEX bucket_full ON belfry.bucket (full_at) WHERE look_at IS NULL;
CREATE INDEX bucket_due ON belfry.bucket (look_at, tenant_id) WHERE look_at IS NOT NULL;

CREATE TABLE belfry.pool (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES belfry.tenant,
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
  slots integer CHECK (slots BETWEEN 0 AND 10000),
  -- {count, perMs, burst}
  rate jsonb,
  -- lower case; HTTP jobs that call it belong to the pool by themselves
  host text CHECK (length(host) BETWEEN 1 AND 253),
  version integer NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT belfry.now(),
  updated_at timestamptz NOT NULL DEFAULT belfry.now()
);
CREATE UNIQUE INDEX pool_name ON belfry.pool (tenant_id, name);
CREATE UNIQUE INDEX pool_host ON belfry.pool (tenant_id, host) WHERE host IS NOT NULL;
CREATE UNIQUE INDEX pool_list ON belfry.pool (tenant_id, id);

CREATE TABLE belfry.queue_pause (
  tenant_id uuid NOT NULL REFERENCES belfry.tenant,
  queue text NOT NULL CHECK (length(queue) BETWEEN 1 AND 128),
  reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 512),
  paused_at timestamptz NOT NULL DEFAULT belfry.now(),
  PRIMARY KEY (tenant_id, queue)
);

CREATE TABLE belfry.regate (
  tenant_id uuid PRIMARY KEY REFERENCES belfry.tenant,
  -- the transaction that changed them last; from the first walk on, that of its first page
  changed_in xid8 NOT NULL DEFAULT pg_current_xact_id(),
  -- virtual ids of what was under way when the first walk began: it may have read the limits of before. A walk that
  -- begins when all of it is over sees every run there is
  open_then text[],
  -- where the walk is: what runs, groups, what waits, and once more what runs
  step text NOT NULL DEFAULT 'running' CHECK (step IN ('running', 'groups', 'waiting', 'claimed')),
  -- the last that this step has seen; null: it has not begun
  cursor text,
  look_at timestamptz NOT NULL DEFAULT belfry.now(),
  walks integer NOT NULL DEFAULT 0,
  final boolean NOT NULL DEFAULT false
);
CREATE INDEX regate_due ON belfry.regate (look_at);

ALTER TABLE belfry.tenant ADD COLUMN run_limit integer CHECK (run_limit BETWEEN 1 AND 10000);

-- Of the definition, as the gate needs them; written by the trigger below.
ALTER TABLE belfry.job
  ADD COLUMN limited boolean NOT NULL DEFAULT false,
  ADD COLUMN concurrency jsonb,
  ADD COLUMN rate_limit jsonb,
  ADD COLUMN target_host text,
  ADD COLUMN paused_at timestamptz,
  ADD COLUMN paused_reason text CHECK (length(paused_reason) BETWEEN 1 AND 512),
  ADD CHECK ((paused_at IS NULL) = (paused_reason IS NULL));

CREATE INDEX job_with_limits ON belfry.job (tenant_id) WHERE limited;

CREATE FUNCTION belfry.host_of(definition jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN lower(substring(definition #>> '{handler,url}'
    FROM '^[hH][tT][tT][pP][sS]?://(?:[^/?#@]*@)?(\[[^]]*\]|[^/?#:]+)'));

-- Whether the job itself says that something may hold its runs. (Without a query, so that it costs no call.)
CREATE FUNCTION belfry.job_limits_itself(job belfry.job) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN job.paused_at IS NOT NULL
    OR coalesce(job.concurrency ->> 'limit', job.concurrency ->> 'key') IS NOT NULL
    OR coalesce(jsonb_array_length(job.concurrency -> 'pools'), 0) > 0
    OR job.rate_limit IS NOT NULL;

-- Whether anything may hold a run of this job. Who changes a pool, a pause or the tenant's limit asks the same of all
-- jobs of the tenant at once; see statements/gate-changes.ts.
CREATE FUNCTION belfry.job_limited(job belfry.job) RETURNS boolean LANGUAGE sql STABLE
  RETURN belfry.job_limits_itself(job)
    OR EXISTS (SELECT FROM belfry.tenant AS t WHERE t.id = job.tenant_id AND t.run_limit IS NOT NULL)
    -- of whatever queue: a run may name another than its job does
    OR EXISTS (SELECT FROM belfry.queue_pause AS p WHERE p.tenant_id = job.tenant_id)
    OR EXISTS (SELECT FROM belfry.pool AS p WHERE p.tenant_id = job.tenant_id AND p.host = job.target_host);

-- Changes of limits and of jobs of a tenant do not pass by each other unseen.
CREATE FUNCTION belfry.hold_limits(tenant uuid, alone boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF alone THEN
    PERFORM pg_advisory_xact_lock(hashtextextended('belfry.limits:' || tenant::text, 0));
  ELSE
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('belfry.limits:' || tenant::text, 0));
  END IF;
END
$$;

CREATE FUNCTION belfry.request_regate(tenant uuid) RETURNS void LANGUAGE sql
BEGIN ATOMIC
  INSERT INTO belfry.regate (tenant_id) VALUES (tenant)
  ON CONFLICT (tenant_id) DO UPDATE
  SET changed_in = pg_current_xact_id(), open_then = NULL, step = 'running', cursor = NULL,
      look_at = belfry.now(), walks = 0, final = false
  -- once a transaction is enough, however many jobs it changes
  WHERE regate.changed_in <> pg_current_xact_id();
END;

CREATE FUNCTION belfry.read_limits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM belfry.hold_limits(NEW.tenant_id, false);
  NEW.concurrency := NULLIF(NEW.definition -> 'concurrency', 'null');
  NEW.rate_limit := NULLIF(NEW.definition -> 'rateLimit', 'null');
  NEW.target_host := belfry.host_of(NEW.definition);
  NEW.limited := belfry.job_limited(NEW);
  IF TG_OP = 'UPDATE' AND (NEW.limited OR OLD.limited)
    AND (NEW.limited, NEW.concurrency, NEW.rate_limit, NEW.target_host, NEW.queue, NEW.paused_at)
      IS DISTINCT FROM (OLD.limited, OLD.concurrency, OLD.rate_limit, OLD.target_host, OLD.queue, OLD.paused_at) THEN
    PERFORM belfry.request_regate(NEW.tenant_id);
  END IF;
  RETURN NEW;
END
$$;
-- Not of "limited": who sets that for all jobs of a tenant holds its limits already, and asks for the walk once.
CREATE TRIGGER read_limits BEFORE INSERT OR UPDATE OF definition, queue, paused_at ON belfry.job
  FOR EACH ROW EXECUTE FUNCTION belfry.read_limits();

-- What a name or JSON pointer points at in an input, as text of at most 32 characters; empty: nothing.
CREATE FUNCTION belfry.key_hash(input jsonb, path text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN coalesce(left(encode(sha256(convert_to(
    CASE WHEN starts_with(path, '/') THEN input #>> string_to_array(
        replace(replace(replace(substr(path, 2), '/', E'\x01'), '~1', '/'), '~0', '~'), E'\x01')
      ELSE input ->> path END, 'UTF8')), 'hex'), 32), '');

-- The group of a run. Asked for runs of limited jobs only:
--   CASE WHEN j.limited THEN belfry.gate_of(j.id, j.queue, input) END
CREATE FUNCTION belfry.gate_of(the_job uuid, the_queue text, input jsonb) RETURNS text LANGUAGE sql STABLE
BEGIN ATOMIC
  SELECT j.id::text
    || '/' || coalesce(belfry.key_hash(input, j.concurrency ->> 'key'), '')
    || '/' || coalesce(belfry.key_hash(input, j.rate_limit ->> 'key'), '')
    || '/' || the_queue
  FROM belfry.job AS j WHERE j.id = the_job;
END;

-- How far the service of a queue has come for the tenant who asks: with workers of servers, and with its own functions.
CREATE FUNCTION belfry.service_of(the_queue text, OUT servers double precision, OUT functions double precision)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog', 'pg_temp'
BEGIN ATOMIC
  SELECT (SELECT virtual_time FROM belfry.queue_progress WHERE queue = the_queue),
         (SELECT virtual_time FROM belfry.queue_progress WHERE queue = the_queue || '/' || belfry.tenant_id()::text);
END;
REVOKE EXECUTE ON FUNCTION belfry.service_of(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION belfry.service_of(text) TO belfry_app;

ALTER TABLE belfry.slot ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.gate_group ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.bucket ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.pool ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.queue_pause ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.regate ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON belfry.slot TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.gate_group FOR SELECT TO belfry_app USING (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.bucket FOR SELECT TO belfry_app USING (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.pool TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.queue_pause TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.regate TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.slot TO belfry_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON belfry.gate_group TO belfry_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON belfry.bucket TO belfry_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON belfry.pool TO belfry_engine USING (true);
CREATE POLICY engine ON belfry.queue_pause TO belfry_engine USING (true);
CREATE POLICY engine ON belfry.regate TO belfry_engine USING (true) WITH CHECK (true);
GRANT SELECT, UPDATE (freed) ON belfry.slot TO belfry_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON belfry.slot TO belfry_engine;
GRANT SELECT ON belfry.gate_group, belfry.bucket TO belfry_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON belfry.gate_group, belfry.bucket TO belfry_engine;
GRANT SELECT, INSERT, UPDATE, DELETE ON belfry.pool TO belfry_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON belfry.queue_pause TO belfry_app;
GRANT SELECT ON belfry.pool, belfry.queue_pause TO belfry_engine;
GRANT SELECT, INSERT, UPDATE ON belfry.regate TO belfry_app;
GRANT SELECT, UPDATE, DELETE ON belfry.regate TO belfry_engine;
GRANT UPDATE (run_limit) ON belfry.tenant TO belfry_app;
GRANT SELECT (run_limit) ON belfry.tenant TO belfry_engine;

-- Partitions have these checks from their parent. Both lists are whole: they hold the words of 0016 too.
ALTER TABLE belfry.attempt
  DROP CONSTRAINT attempt_outcome_check,
  ADD CONSTRAINT attempt_outcome_check CHECK (
    outcome IN ('succeeded', 'failed', 'timed_out', 'canceled', 'lost', 'released', 'expired', 'skipped')
  ),
  DROP CONSTRAINT attempt_reason_check,
  ADD CONSTRAINT attempt_reason_check CHECK (
    reason IN ('attempts_exhausted', 'not_retryable', 'outcome_unknown', 'quarantined', 'canceled_by_request',
      'canceled_by_handler', 'overlap', 'deadline_exceeded', 'expired', 'concurrency_limit', 'replaced')
  ),
  -- no handler was called
  ADD CONSTRAINT attempt_skipped_number CHECK (outcome <> 'skipped' OR number = 0);

-- FORCE would keep the owner from the rows.
ALTER TABLE belfry.job NO FORCE ROW LEVEL SECURITY;
UPDATE belfry.job SET target_host = belfry.host_of(definition) WHERE handler = 'http';
ALTER TABLE belfry.job FORCE ROW LEVEL SECURITY;
