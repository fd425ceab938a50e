-- Less to read and to write for each run on its way.

-- False: `run` says nothing of it that does not stand here (no input, no planned time, due when it became available, made
-- by no backfill), so a claim need not look. True is always right.
ALTER TABLE belfry.ready ADD COLUMN detailed boolean NOT NULL DEFAULT true;

-- Each row is written twice, waiting and then claimed. With room for both beside each other the second goes to the same
-- page, of which only the difference is logged, and no page of the key splits.
ALTER TABLE belfry.ready SET (fillfactor = 50);
ALTER INDEX belfry.ready_pkey SET (fillfactor = 50);
