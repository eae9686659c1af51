-- The journal of sql/sqlite/001_journal.sql, for many machines. A branch keeps its head, because a statement that waited for a
-- lock sees the newest version of the row it locked, but not rows that were added to other tables meanwhile.

CREATE SEQUENCE fence;

CREATE TABLE run (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    kind text NOT NULL,
    name text NOT NULL,
    status text NOT NULL,
    incarnation bigint NOT NULL,
    fence bigint NOT NULL, -- 0 when no session may write
    owner text NOT NULL,
    held_until_us bigint NOT NULL,
    created_us bigint NOT NULL,
    updated_us bigint NOT NULL,
    fingerprint text NOT NULL,
    definition bytea NOT NULL
);

CREATE TABLE branch (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run bigint NOT NULL REFERENCES run (key) ON DELETE CASCADE,
    name text NOT NULL,
    parent text,
    fork_seq bigint NOT NULL,
    head bigint NOT NULL,
    created_us bigint NOT NULL,
    UNIQUE (run, name)
) WITH (fillfactor = 50); -- room for a new head beside the old one

CREATE TABLE event (
    branch bigint NOT NULL,
    seq bigint NOT NULL,
    type text NOT NULL,
    event_id text NOT NULL,
    at_us bigint NOT NULL,
    run_id text NOT NULL,
    payload bytea NOT NULL,
    delta bytea,
    parent_event_id text,
    triggered_by_event_id text,
    started_event_id text,
    source_type text,
    source_id text,
    source_name text,
    task_id text,
    task_name text,
    agent_id text,
    agent_role text,
    PRIMARY KEY (branch, seq)
);

CREATE TABLE snapshot (
    branch bigint NOT NULL,
    seq bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (branch, seq)
);

CREATE TABLE mark (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    branch bigint NOT NULL,
    seq bigint NOT NULL,
    at_us bigint NOT NULL,
    trigger text NOT NULL,
    parent_id text,
    size bigint NOT NULL
);
CREATE INDEX mark_branch ON mark (branch);
CREATE INDEX mark_age ON mark (at_us);

CREATE TABLE blob (
    digest text PRIMARY KEY,
    data bytea NOT NULL
);

-- Which runs listed a blob; a blob that no run uses goes.
CREATE TABLE blob_use (
    run bigint NOT NULL REFERENCES run (key) ON DELETE CASCADE,
    digest text NOT NULL,
    PRIMARY KEY (run, digest)
);
CREATE INDEX blob_use_digest ON blob_use (digest);
