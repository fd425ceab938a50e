-- Calendars of a tenant: what schedules leave out or keep to. A definition is as people wrote it (domain/calendar/) and
-- may be large, so whoever reads it often keeps it, by its digest (engine/calendar-shelf.ts).

CREATE TABLE belfry.calendar (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
  description text NOT NULL DEFAULT '',
  definition jsonb NOT NULL,
  -- SHA-256 of the definition as it was sent: tells one from another, also where a change was rolled back
  digest bytea NOT NULL CHECK (length(digest) = 32),
  -- since when the definition is as it is
  defined_at timestamptz NOT NULL DEFAULT belfry.now(),
  -- grows with every change; the ETag
  version integer NOT NULL DEFAULT 1 CHECK (version > 0),
  created_at timestamptz NOT NULL DEFAULT belfry.now(),
  updated_at timestamptz NOT NULL DEFAULT belfry.now(),
  deleted_at timestamptz
);
CREATE UNIQUE INDEX calendar_name ON belfry.calendar (tenant_id, name) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX calendar_list ON belfry.calendar (tenant_id, id);

-- Which schedule uses which, in the order in which they are asked. A deleted schedule keeps its rows; they hold up
-- nothing.
CREATE TABLE belfry.schedule_calendar (
  tenant_id uuid NOT NULL,
  schedule_id uuid NOT NULL,
  calendar_id uuid NOT NULL,
  use text NOT NULL CHECK (use IN ('skip', 'only')),
  position smallint NOT NULL CHECK (position BETWEEN 0 AND 9),
  PRIMARY KEY (tenant_id, schedule_id, use, position),
  CONSTRAINT schedule_calendar_calendar FOREIGN KEY (tenant_id, calendar_id) REFERENCES belfry.calendar (tenant_id, id)
);
CREATE INDEX schedule_calendar_user ON belfry.schedule_calendar (tenant_id, calendar_id, schedule_id);

ALTER TABLE belfry.schedule
  -- what becomes of a planned time that its calendars exclude
  ADD COLUMN on_excluded text NOT NULL DEFAULT 'skip'
    CHECK (on_excluded IN ('skip', 'next_business_day', 'previous_business_day'));

ALTER TABLE belfry.calendar ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.schedule_calendar ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON belfry.calendar TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.schedule_calendar TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.calendar TO belfry_engine USING (true);
CREATE POLICY engine ON belfry.schedule_calendar TO belfry_engine USING (true);

GRANT SELECT, INSERT, UPDATE ON belfry.calendar TO belfry_app;
GRANT SELECT, INSERT, DELETE ON belfry.schedule_calendar TO belfry_app;
GRANT SELECT ON belfry.calendar, belfry.schedule_calendar TO belfry_engine;
