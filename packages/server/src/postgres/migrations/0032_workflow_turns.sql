-- An event that comes again answers as it did: also which workflows refused it, and why.
ALTER TABLE belfry.event ADD COLUMN refused jsonb NOT NULL DEFAULT '[]';
GRANT UPDATE (refused) ON belfry.event TO belfry_app;

-- A workflow run that is opened again waits for its turn like any other, unless what was done by hand starts nothing.
GRANT UPDATE (admitted_at, timeout_ms) ON belfry.workflow_progress TO belfry_app;
