-- Lists of workflow runs in some states: by how they ended, or from what is alive. The second has a condition that always
-- holds and that only the list names, so that nothing else is ever planned as a walk along it.
CREATE INDEX workflow_run_state ON belfry.workflow_run (tenant_id, state, id) WHERE state IS NOT NULL;
CREATE INDEX workflow_progress_list ON belfry.workflow_progress (tenant_id, workflow_run_id) WHERE version > 0;
