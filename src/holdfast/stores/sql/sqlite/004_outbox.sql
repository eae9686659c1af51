-- What is to be told of jobs. A row is written in the transaction of what it tells.

ALTER TABLE job ADD COLUMN webhook TEXT NOT NULL DEFAULT '';

CREATE TABLE delivery (
    key INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of what happened
    id TEXT NOT NULL UNIQUE,
    job_id TEXT NOT NULL, -- the job may be deleted before it is told of
    event TEXT NOT NULL,
    target TEXT NOT NULL,
    body BLOB NOT NULL,
    created_us INTEGER NOT NULL,
    status TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    next_us INTEGER, -- NULL when it is settled, or behind another of its job and target
    error TEXT NOT NULL,
    owner TEXT NOT NULL,
    settled_us INTEGER
);
CREATE INDEX delivery_job ON delivery (job_id, target, key);
-- What has arrived is in none of these, so that a look costs the same whatever is stored.
CREATE INDEX delivery_due ON delivery (next_us) WHERE next_us IS NOT NULL;
CREATE INDEX delivery_pending ON delivery (job_id, target, key) WHERE status = 'pending';
CREATE INDEX delivery_settled ON delivery (status, settled_us) WHERE settled_us IS NOT NULL;

-- Jobs whose steps somebody wants to hear of, and how far their journals were read.
CREATE TABLE step_tail (
    job_id TEXT PRIMARY KEY NOT NULL,
    run BLOB NOT NULL, -- its id as journals have it
    position INTEGER NOT NULL -- of the last event that was read
) WITHOUT ROWID;
