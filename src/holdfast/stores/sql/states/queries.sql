-- name: schema
-- AUTOINCREMENT: a later save has a higher key, also after rows were dropped.
CREATE TABLE state (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    state_id TEXT NOT NULL,
    method TEXT NOT NULL,
    saved_us INTEGER NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX state_by_id ON state (state_id, key);

-- name: save
INSERT INTO state (state_id, method, saved_us, data) VALUES (?, ?, ?, ?);

-- name: drop_older
DELETE FROM state WHERE state_id = :state_id AND key <= (
    SELECT key FROM state WHERE state_id = :state_id ORDER BY key DESC LIMIT 1 OFFSET :keep
);

-- name: load
SELECT data FROM state WHERE state_id = ? ORDER BY key DESC LIMIT 1;

-- name: history
SELECT method, saved_us, data FROM state WHERE state_id = ? ORDER BY key DESC;
