-- Schedules and what came of their due times. A schedule is one piece of JSON; what is looked for by is beside it.

CREATE TABLE schedule (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    next_us INTEGER, -- NULL when nothing is to come
    queued_us INTEGER,
    held_until_us INTEGER NOT NULL,
    data BLOB NOT NULL -- JSON
);

-- One row for each due time, and for each job of one that fired several: a second fire of a due time finds its place taken.
CREATE TABLE tick (
    key INTEGER PRIMARY KEY AUTOINCREMENT, -- age
    schedule INTEGER NOT NULL,
    due_us INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT NOT NULL,
    job TEXT,
    UNIQUE (schedule, due_us, number)
);
CREATE INDEX tick_schedule ON tick (schedule, key);
