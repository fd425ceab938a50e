-- What future times were computed with, and the work of computing them again when that changes.

-- The rules of every zone from now on, as of the newest zone data that a scheduler came with (domain/zone/zone-data.ts).
-- About 600 rows of the whole installation, written when newer data comes; no tenant.
CREATE TABLE belfry.zone_data (
  zone text PRIMARY KEY,
  -- SHA-256 of the offset at rules_from and of every change after it; null where the newest data lacks the zone
  fingerprint bytea CHECK (length(fingerprint) = 32),
  rules_from timestamptz NOT NULL,
  -- the newest release that has these rules
  data_version text COLLATE "C" NOT NULL,
  -- the release that brought them: next times that an older one computed are to be computed again
  changed_in text COLLATE "C" NOT NULL,
  CHECK (changed_in <= data_version)
);
GRANT SELECT, INSERT, UPDATE ON belfry.zone_data TO belfry_engine;
GRANT SELECT ON belfry.zone_data TO belfry_app, belfry_platform;

-- One row each time that the next times of a zone's schedules (of all tenants), or of those that use a calendar (of its
-- tenant), are to be computed again. Worked off in batches by whichever scheduler node takes the row for one.
CREATE TABLE belfry.replan (
  id uuid PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('zone', 'calendar')),
  -- name of the zone, or id of the calendar
  subject text NOT NULL,
  tenant_id uuid,
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'running', 'done', 'superseded')),
  -- releases of the zone data, or versions of the calendar
  from_version text COLLATE "C",
  to_version text COLLATE "C" NOT NULL,
  -- an estimate
  total bigint,
  done bigint NOT NULL DEFAULT 0,
  moved bigint NOT NULL DEFAULT 0,
  failed bigint NOT NULL DEFAULT 0,
  error text,
  -- how far this pass came, and how many it has left for the next one; no batch before resume_at
  cursor text,
  left_over bigint NOT NULL DEFAULT 0,
  resume_at timestamptz NOT NULL DEFAULT belfry.now(),
  requested_at timestamptz NOT NULL DEFAULT belfry.now(),
  started_at timestamptz,
  ended_at timestamptz,
  CHECK ((kind = 'zone') = (tenant_id IS NULL)),
  CHECK ((state IN ('done', 'superseded')) = (ended_at IS NOT NULL))
) WITH (fillfactor = 50);
CREATE INDEX replan_open ON belfry.replan (resume_at, id) WHERE state IN ('pending', 'running');
CREATE UNIQUE INDEX replan_zone ON belfry.replan (subject, to_version) WHERE kind = 'zone';
CREATE INDEX replan_calendar ON belfry.replan (tenant_id, subject, id) WHERE kind = 'calendar';
CREATE INDEX replan_zone_list ON belfry.replan (id) WHERE kind = 'zone';
CREATE INDEX replan_ended ON belfry.replan (ended_at) WHERE ended_at IS NOT NULL;

ALTER TABLE belfry.replan ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON belfry.replan TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.replan TO belfry_engine USING (true) WITH CHECK (true);
-- what is of all tenants
CREATE POLICY platform ON belfry.replan FOR SELECT TO belfry_platform USING (tenant_id IS NULL);
GRANT SELECT, INSERT ON belfry.replan TO belfry_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON belfry.replan TO belfry_engine;
GRANT SELECT ON belfry.replan TO belfry_platform;

-- The schedules of a zone whose next time older data computed: what a replan walks, and one step a zone to see whether
-- there are any. Schedules in UTC, of which nothing ever changes, and those without a timer are not in it: they pay
-- nothing. For the others a create takes about 2 µs more (13 for the row without it) and 60 bytes.
CREATE INDEX schedule_zone ON belfry.schedule (zone, zone_data_version COLLATE "C", id)
  WHERE state = 'active' AND zone <> 'UTC' AND deleted_at IS NULL;
-- what a time was computed with: noted by a replan, and by a fire that computed one with older data
GRANT UPDATE (zone_data_version) ON belfry.schedule TO belfry_engine;
