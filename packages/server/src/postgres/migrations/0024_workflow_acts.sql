-- What people do to a workflow run by hand: parts of it run again, tasks are marked or skipped. One that has ended opens
-- again: its progress is made from what was kept of it, in the transaction that puts tasks back. The lock of the progress,
-- or its key where it is made, lets one act in after the other.

ALTER TABLE belfry.workflow_run
  -- grows with every act; the ETag. What the engine does leaves it as it is
  ADD COLUMN revision integer NOT NULL DEFAULT 1 CHECK (revision > 0),
  -- why it was stopped before its end, as in workflow_progress
  ADD COLUMN stop text CHECK (stop IN ('canceled', 'timed_out', 'failed_fast')),
  -- newest first, bounded: who did what, when and why
  ADD COLUMN acts jsonb NOT NULL DEFAULT '[]',
  -- {"fingerprint": of the request, "tasks": what it put back}: the same again, while it is under way, does nothing
  ADD COLUMN last_rerun jsonb,
  -- {"<task>": what its children take as its output}, of tasks that were marked succeeded, by number
  ADD COLUMN given_outputs jsonb NOT NULL DEFAULT '{}',
  -- tasks that a newer version no longer has: runs of the first have -1 as the number of their task, and so on
  ADD COLUMN gone_tasks text[] NOT NULL DEFAULT '{}';

GRANT UPDATE (version, input, state, ended_at, states, items, notes, stop, revision, acts, last_rerun, given_outputs,
              gone_tasks)
  ON belfry.workflow_run TO belfry_app;
GRANT DELETE, UPDATE (version, states, items, notes, turn, stop, deadline) ON belfry.workflow_progress TO belfry_app;
GRANT DELETE ON belfry.task_run TO belfry_app;
-- a workflow run that moves to a newer version: its tasks are numbered anew
GRANT UPDATE (task) ON belfry.run TO belfry_app;
GRANT UPDATE (stop) ON belfry.workflow_run TO belfry_engine;
