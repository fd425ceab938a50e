-- How far the service of each queue has come: the highest tag that was claimed from it (domain/fair-queue.ts). Claimers
-- note it at most once a second, in a transaction of its own; processes that enqueue read it. Names of queues are shared
-- by all tenants, so there is no tenant here and only the engine sees it.

CREATE TABLE belfry.queue_progress (
  queue text PRIMARY KEY,
  virtual_time double precision NOT NULL,
  noted_at timestamptz NOT NULL DEFAULT belfry.now()
) WITH (fillfactor = 50);

GRANT SELECT, INSERT, UPDATE, DELETE ON belfry.queue_progress TO belfry_engine;

-- A fire that ends a schedule changes what a reader saw (version, the ETag) and what may still fire (gen).
GRANT UPDATE (version, gen) ON belfry.schedule TO belfry_engine;
