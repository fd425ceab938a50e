-- What ended, by the number of its transaction (0029): a few bytes for each stretch of pages. By itself, because it reads the
-- history: writers wait meanwhile, and readers would too if the columns were added in the same transaction.

CREATE INDEX attempt_ended_in ON belfry.attempt USING brin (ended_in) WITH (pages_per_range = 16, autosummarize = on);
CREATE INDEX workflow_run_ended_in ON belfry.workflow_run
  USING brin (ended_in) WITH (pages_per_range = 16, autosummarize = on);
