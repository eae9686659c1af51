-- A journal belongs to a root run (`run`), has branches, and a branch has events in one unbroken row of numbers.
-- Ids that are UUIDs are blobs of 16 bytes, others are text. Large rows stay in rowid tables: WITHOUT ROWID is 2.5 times larger.

CREATE TABLE run (
    key INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    fence INTEGER NOT NULL, -- 0 when no session may write
    owner TEXT NOT NULL,
    held_until_us INTEGER NOT NULL,
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    definition BLOB NOT NULL
);

CREATE TABLE branch (
    key INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    name TEXT NOT NULL,
    parent TEXT,
    fork_seq INTEGER NOT NULL,
    floor INTEGER NOT NULL, -- the head is not below this, even when its rows were pruned
    created_us INTEGER NOT NULL,
    UNIQUE (run, name)
);

-- The key is the place, (branch << 32) + seq, so that a commit writes to one b-tree and a run is read in one sweep.
CREATE TABLE event (
    key INTEGER PRIMARY KEY,
    type TEXT NOT NULL,
    event_id BLOB NOT NULL,
    at_us INTEGER NOT NULL,
    run_id BLOB NOT NULL,
    parent_event_id BLOB,
    triggered_by_event_id BLOB,
    started_event_id BLOB,
    source_type TEXT,
    source_id BLOB,
    source_name TEXT,
    task_id BLOB,
    task_name TEXT,
    agent_id BLOB,
    agent_role TEXT,
    payload BLOB NOT NULL,
    delta BLOB
);

CREATE TABLE snapshot (
    key INTEGER PRIMARY KEY,
    branch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (branch, seq)
);

-- Small rows that come one a step: one b-tree and one index, because every page more is felt in every commit.
CREATE TABLE mark (
    id BLOB PRIMARY KEY NOT NULL,
    branch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    trigger TEXT NOT NULL,
    parent_id BLOB,
    size INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX mark_branch ON mark (branch);

CREATE TABLE blob (
    key INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    data BLOB NOT NULL
);

-- Which runs listed a blob; a blob that no run uses goes.
CREATE TABLE blob_use (
    run INTEGER NOT NULL,
    blob INTEGER NOT NULL,
    UNIQUE (run, blob)
);
CREATE INDEX blob_use_blob ON blob_use (blob);

-- The last fence given out. It outlives every run, so that no later session ever gets an old one's number.
CREATE TABLE fence (last INTEGER NOT NULL);
INSERT INTO fence VALUES (0);
