-- Headers of the answer of a target that its job asked to keep: an object of texts, by lower-case name.
ALTER TABLE belfry.attempt ADD COLUMN response_headers jsonb;
