-- What processes hold: a row before a resource is made, until it is proved gone. `data` is the row as JSON.

CREATE TABLE resource (
    key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    data BYTEA NOT NULL
);
