-- Since when the timing of a schedule is as it is. Which times were planned before that nobody can compute any more:
-- an explanation goes by their occurrences alone.
ALTER TABLE belfry.schedule ADD COLUMN timing_since timestamptz;
-- of those that are there nobody knows; their last change is a safe answer. (FORCE would keep the owner from the rows.)
ALTER TABLE belfry.schedule NO FORCE ROW LEVEL SECURITY;
UPDATE belfry.schedule SET timing_since = updated_at;
ALTER TABLE belfry.schedule FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.schedule
  ALTER COLUMN timing_since SET DEFAULT belfry.now(),
  ALTER COLUMN timing_since SET NOT NULL;
-- a replan (0012) goes on by other rules of the zone
GRANT UPDATE (timing_since) ON belfry.schedule TO belfry_engine;
