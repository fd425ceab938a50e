-- The checks of 0042, held against the jobs that exist: in a transaction of its own, which keeps nobody from them.

ALTER TABLE belfry.job VALIDATE CONSTRAINT job_handler_check, VALIDATE CONSTRAINT job_handler_tenant;
