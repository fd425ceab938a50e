-- Events that leave for others (Kafka). The record is the history itself, which is only ever appended to: each row that
-- ends something carries the number of its transaction. Who sends them on reads from the number where it stands up to the
-- oldest that is still open, so that none is passed over that commits late; nothing is written for an event, and nothing
-- is deleted. Rows of before have no number and are not sent. (The indexes: 0034, which locks no reader out.)

ALTER TABLE belfry.attempt ADD COLUMN ended_in bigint;
ALTER TABLE belfry.attempt ALTER COLUMN ended_in SET DEFAULT (pg_current_xact_id()::text)::bigint;

-- The row of a workflow run changes once, when it is over.
ALTER TABLE belfry.workflow_run ADD COLUMN ended_in bigint;

CREATE FUNCTION belfry.note_workflow_run_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.ended_in := (pg_current_xact_id()::text)::bigint;
  RETURN NEW;
END
$$;
CREATE TRIGGER note_end BEFORE UPDATE OF state ON belfry.workflow_run
  FOR EACH ROW WHEN (NEW.state IS NOT NULL AND OLD.state IS DISTINCT FROM NEW.state)
  EXECUTE FUNCTION belfry.note_workflow_run_end();

-- How far the events of an installation have left: all with a lower number, and those of this one up to a key.
CREATE TABLE belfry.outgoing_position (
  name text PRIMARY KEY,
  number bigint NOT NULL,
  key text NOT NULL DEFAULT '',
  noted_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
GRANT SELECT, INSERT, UPDATE ON belfry.outgoing_position TO belfry_engine;
