-- What processes hold: a row before a resource is made, until it is proved gone. `data` is the row as JSON.

CREATE TABLE resource (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    data BLOB NOT NULL
);
