-- Jobs and their queue. What is large or seldom read is beside the row, so that a change of status writes little.

CREATE TABLE job (
    key INTEGER PRIMARY KEY AUTOINCREMENT, -- age
    id TEXT NOT NULL UNIQUE,
    backwards TEXT NOT NULL, -- the id from its end: people type the last letters, the first ones are only the time
    flow TEXT NOT NULL,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    version INTEGER NOT NULL,
    reason TEXT NOT NULL,
    priority INTEGER NOT NULL,
    lane TEXT NOT NULL, -- what it uses, sorted, one a line: jobs of one lane are held up by the same caps
    open_needs INTEGER NOT NULL, -- jobs it needs that have not completed
    worker TEXT NOT NULL,
    runs INTEGER NOT NULL,
    wake_us INTEGER,
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    started_us INTEGER,
    ended_us INTEGER,
    archived INTEGER NOT NULL
);
CREATE INDEX job_backwards ON job (backwards);
CREATE INDEX job_status ON job (status, key);
-- Ended jobs are in none of these, so that a claim costs the same whatever is stored.
CREATE INDEX job_ready ON job (lane, priority DESC, key) WHERE status = 'queued' AND open_needs = 0;
CREATE INDEX job_worker ON job (worker) WHERE worker <> '';
CREATE INDEX job_wake ON job (wake_us) WHERE status = 'waiting' AND wake_us IS NOT NULL;

CREATE TABLE job_data (
    job INTEGER PRIMARY KEY,
    definition BLOB NOT NULL,
    inputs BLOB NOT NULL,
    outputs BLOB,
    asks BLOB NOT NULL
);

CREATE TABLE job_label (
    job INTEGER NOT NULL,
    label TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (job, label)
) WITHOUT ROWID;

CREATE TABLE job_need (
    job INTEGER NOT NULL,
    need INTEGER NOT NULL,
    PRIMARY KEY (job, need)
) WITHOUT ROWID;
CREATE INDEX job_need_need ON job_need (need);

-- Every change of a status, in the transaction that made it. Numbers are never given twice: watchers go by them.
CREATE TABLE job_change (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    job INTEGER NOT NULL,
    source TEXT,
    target TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    reason TEXT NOT NULL,
    by TEXT NOT NULL
);
CREATE INDEX job_change_job ON job_change (job);

CREATE TABLE job_request (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    job INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    data BLOB NOT NULL,
    by TEXT NOT NULL
);
CREATE INDEX job_request_job ON job_request (job);

CREATE TABLE worker (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    owner BLOB NOT NULL, -- JSON
    held_until_us INTEGER NOT NULL,
    started_us INTEGER NOT NULL,
    serving INTEGER NOT NULL
);
