-- name: find_run
SELECT key, incarnation, owner, held_until_us, created_us FROM run WHERE id = ?;

-- name: next_fence
UPDATE fence SET last = last + 1;

-- name: last_fence
SELECT last FROM fence;

-- name: add_run
INSERT INTO run (id, kind, name, status, fingerprint, created_us, definition, incarnation, fence, owner, held_until_us, updated_us)
VALUES (:id, :kind, :name, :status, :fingerprint, :created_us, :definition, 1, :fence, :owner, :held_until_us, :now_us);

-- name: take_run
UPDATE run
SET kind = :kind, name = :name, status = :status, fingerprint = :fingerprint, definition = :definition,
    incarnation = incarnation + 1, fence = :fence, owner = :owner, held_until_us = :held_until_us, updated_us = :now_us
WHERE key = :key;

-- name: leave_run
UPDATE run SET fence = 0, owner = '', held_until_us = 0 WHERE key = ? AND fence = ?;

-- name: standing
-- What an append must know: the run's fence, the branch, its fork, its head, and up to where its marks are listed.
SELECT run.fence, run.key, branch.key, branch.fork_seq,
    max(branch.floor, ifnull((
        SELECT max(key) & 0xFFFFFFFF FROM event WHERE key > branch.key << 32 AND key < (branch.key + 1) << 32), 0)),
    run.listed & 0xFFFFFFFF
FROM run JOIN branch ON branch.run = run.key
WHERE run.id = ? AND branch.name = ?;

-- name: touch_run
-- Not at every append: rows alone leave the run's page alone, which saves a fifth of a commit.
UPDATE run
SET updated_us = max(updated_us, ?1), status = ifnull(?2, status), held_until_us = ifnull(?3, held_until_us),
    fence = CASE ?3 WHEN 0 THEN 0 ELSE fence END, owner = CASE ?3 WHEN 0 THEN '' ELSE owner END
WHERE key = ?4;

-- name: add_event
-- The first values say where the row comes from. A session that may not write any more gets no type for its first row, and so an
-- IntegrityError.
INSERT INTO event (run_id, source_type, source_id, source_name, task_id, task_name, agent_id, agent_role,
    type, key, event_id, at_us, parent_event_id, triggered_by_event_id, started_event_id, payload, delta,
    mark_trigger, mark_parent, mark_size)
VALUES (?3, nullif(?4, 0), nullif(?5, 0), nullif(?6, 0), nullif(?7, 0), nullif(?8, 0), nullif(?9, 0), nullif(?10, 0),
    CASE (SELECT fence FROM run WHERE key = ?1) WHEN ?2 THEN ?11 END, ?, ?, ?, nullif(?, 0), nullif(?, 0), nullif(?, 0), ?,
    nullif(?, 0), nullif(?, 0), nullif(?, 0), nullif(?, -1))

-- name: and_event
-- Behind `add_event`, for each row more that comes from the same place.
, (?3, nullif(?4, 0), nullif(?5, 0), nullif(?6, 0), nullif(?7, 0), nullif(?8, 0), nullif(?9, 0), nullif(?10, 0),
    ?, ?, ?, ?, nullif(?, 0), nullif(?, 0), nullif(?, 0), ?, nullif(?, 0), nullif(?, 0), nullif(?, 0), nullif(?, -1))

-- name: and_other_event
-- Behind `add_event`, for each row more, if some come from other places.
, (?, nullif(?, 0), nullif(?, 0), nullif(?, 0), nullif(?, 0), nullif(?, 0), nullif(?, 0), nullif(?, 0),
    ?, ?, ?, ?, nullif(?, 0), nullif(?, 0), nullif(?, 0), ?, nullif(?, 0), nullif(?, 0), nullif(?, 0), nullif(?, -1))

-- name: add_blob
INSERT OR IGNORE INTO blob (digest, data) VALUES (?, ?);

-- name: fill_log
-- Always rolled back.
INSERT INTO blob (digest, data) VALUES ('', zeroblob(?));

-- name: use_blob
INSERT OR IGNORE INTO blob_use (run, blob) SELECT ?, key FROM blob WHERE digest = ?;

-- name: add_snapshot
INSERT INTO snapshot (branch, seq, data) VALUES (?, ?, ?)
ON CONFLICT (branch, seq) DO UPDATE SET data = excluded.data;

-- name: add_mark
INSERT INTO mark (id, branch, seq, at_us, trigger, parent_id, size) VALUES (?, ?, ?, ?, ?, nullif(?, 0), ?)
ON CONFLICT (id) DO UPDATE SET branch = excluded.branch, seq = excluded.seq, at_us = excluded.at_us,
    trigger = excluded.trigger, parent_id = excluded.parent_id, size = excluded.size;

-- name: unmark_row
-- Before a mark's id is used anew: it may still be in a row.
UPDATE event SET mark_size = NULL WHERE key IN (SELECT key FROM mark_in_row WHERE id = ?);

-- name: list_marks
INSERT INTO mark (id, branch, seq, at_us, trigger, parent_id, size)
SELECT id, key >> 32, seq, at_us, trigger, parent_id, size FROM mark_in_row WHERE run_key = ?
ON CONFLICT (id) DO UPDATE SET branch = excluded.branch, seq = excluded.seq, at_us = excluded.at_us,
    trigger = excluded.trigger, parent_id = excluded.parent_id, size = excluded.size;

-- name: note_listed
UPDATE run SET listed = ifnull((
        SELECT max(event.key) FROM event WHERE event.key > listed AND event.key < ((listed >> 32) + 1) << 32), listed)
WHERE key = ?;

-- name: start_listing
UPDATE run SET listed = ? WHERE key = ?;

-- name: run
SELECT id, kind, name, status, incarnation, fingerprint, created_us, max(updated_us, ifnull((
        SELECT max((SELECT at_us FROM event WHERE event.key > branch.key << 32 AND event.key < (branch.key + 1) << 32
                    ORDER BY event.key DESC LIMIT 1))
        FROM branch WHERE branch.run = run.key), 0)) AS changed_us,
    held_until_us, definition
FROM run WHERE id = ?;

-- name: runs
SELECT id, kind, name, status, incarnation, fingerprint, created_us, max(updated_us, ifnull((
        SELECT max((SELECT at_us FROM event WHERE event.key > branch.key << 32 AND event.key < (branch.key + 1) << 32
                    ORDER BY event.key DESC LIMIT 1))
        FROM branch WHERE branch.run = run.key), 0)) AS changed_us,
    held_until_us, definition
FROM run ORDER BY changed_us DESC, fence DESC, key DESC LIMIT ?;

-- name: runs_with_status
SELECT id, kind, name, status, incarnation, fingerprint, created_us, max(updated_us, ifnull((
        SELECT max((SELECT at_us FROM event WHERE event.key > branch.key << 32 AND event.key < (branch.key + 1) << 32
                    ORDER BY event.key DESC LIMIT 1))
        FROM branch WHERE branch.run = run.key), 0)) AS changed_us,
    held_until_us, definition
FROM run WHERE status = ? ORDER BY changed_us DESC, fence DESC, key DESC LIMIT ?;

-- name: branches
SELECT branch.key, branch.name, branch.parent, branch.fork_seq,
    max(branch.floor, ifnull((
        SELECT max(key) & 0xFFFFFFFF FROM event WHERE key > branch.key << 32 AND key < (branch.key + 1) << 32), 0)), branch.created_us
FROM run JOIN branch ON branch.run = run.key
WHERE run.id = ? ORDER BY branch.key;

-- name: page
SELECT key & 0xFFFFFFFF, type, event_id, at_us, run_id, payload, delta, parent_event_id, triggered_by_event_id, started_event_id,
    source_type, source_id, source_name, task_id, task_name, agent_id, agent_role
FROM event WHERE key > ? AND key <= ? ORDER BY key LIMIT ?;

-- name: last_snapshot
SELECT seq, data FROM snapshot WHERE branch = ? AND seq <= ? ORDER BY seq DESC LIMIT 1;

-- name: snapshots
SELECT seq FROM snapshot WHERE branch = ?;

-- name: blob
SELECT data FROM blob WHERE digest = ?;

-- name: mark
-- One statement, which sees one state of the file: a mark may be listed at any moment. Its second part reads all rows that may have
-- one, but not if the first has found it, nor for the id of a run, which is asked for often: no event is called like a run.
SELECT mark.id, mark.seq, mark.at_us, mark.trigger, branch.name, run.id, mark.parent_id, mark.size
FROM mark JOIN branch ON branch.key = mark.branch JOIN run ON run.key = branch.run
WHERE mark.id = ?1
UNION ALL SELECT id, seq, at_us, trigger, branch, run, parent_id, size FROM mark_in_row
WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM run WHERE id = ?1)
LIMIT 1;

-- name: marks
-- Limited before they are put together: then so many are kept while reading, instead of sorting all.
SELECT * FROM (
    SELECT mark.id AS id, mark.seq, mark.at_us AS at_us, mark.trigger, branch.name, run.id, mark.parent_id, mark.size
    FROM mark JOIN branch ON branch.key = mark.branch JOIN run ON run.key = branch.run
    ORDER BY mark.at_us DESC, mark.id DESC LIMIT ?1)
UNION ALL SELECT * FROM (
    SELECT id, seq, at_us, trigger, branch, run, parent_id, size FROM mark_in_row ORDER BY at_us DESC, id DESC LIMIT ?1)
ORDER BY at_us DESC, id DESC LIMIT ?1;

-- name: marks_of_run
SELECT * FROM (
    SELECT mark.id AS id, mark.seq, mark.at_us AS at_us, mark.trigger, branch.name, run.id, mark.parent_id, mark.size
    FROM run JOIN branch ON branch.run = run.key JOIN mark ON mark.branch = branch.key
    WHERE run.id = ?1 ORDER BY mark.at_us DESC, mark.id DESC LIMIT ?2)
UNION ALL SELECT * FROM (
    SELECT id, seq, at_us, trigger, branch, run, parent_id, size FROM mark_in_row
    WHERE run = ?1 ORDER BY at_us DESC, id DESC LIMIT ?2)
ORDER BY at_us DESC, id DESC LIMIT ?2;

-- name: size_run
SELECT
    ifnull((SELECT sum(length(payload) + ifnull(length(delta), 0))
            FROM run JOIN branch ON branch.run = run.key
                JOIN event ON event.key > branch.key << 32 AND event.key < (branch.key + 1) << 32 WHERE run.id = :id), 0)
    + ifnull((SELECT sum(length(data))
              FROM run JOIN branch ON branch.run = run.key JOIN snapshot ON snapshot.branch = branch.key WHERE run.id = :id), 0)
    + ifnull((SELECT sum(length(data))
              FROM run JOIN blob_use ON blob_use.run = run.key JOIN blob ON blob.key = blob_use.blob WHERE run.id = :id), 0);

-- name: add_branch
INSERT INTO branch (run, name, parent, fork_seq, floor, created_us) VALUES (?, ?, ?, ?, ?, ?);

-- name: count_events
SELECT count(*) FROM event WHERE key > ? AND key <= ?;

-- name: size_events
SELECT ifnull(sum(length(payload) + ifnull(length(delta), 0)), 0) FROM event WHERE key >= ? AND key <= ?;

-- name: drop_events
DELETE FROM event WHERE key >= ? AND key <= ?;

-- name: settle_run
-- Before its last rows go, note when they came.
UPDATE run SET updated_us = max(updated_us, ifnull((
        SELECT max((SELECT at_us FROM event WHERE event.key > branch.key << 32 AND event.key < (branch.key + 1) << 32
                    ORDER BY event.key DESC LIMIT 1))
        FROM branch WHERE branch.run = run.key), 0)) WHERE key = ?;

-- name: raise_floor
UPDATE branch SET floor = ? WHERE key = ?;

-- name: size_snapshot
SELECT length(data) FROM snapshot WHERE branch = ? AND seq = ?;

-- name: drop_snapshot
DELETE FROM snapshot WHERE branch = ? AND seq = ?;

-- name: drop_mark
DELETE FROM mark WHERE id = ?;

-- name: reparent_mark
UPDATE mark SET parent_id = nullif(?, 0) WHERE id = ?;

-- name: used_blobs
SELECT blob.key, blob.digest FROM blob_use JOIN blob ON blob.key = blob_use.blob WHERE blob_use.run = ?;

-- name: mentions
SELECT EXISTS (SELECT 1 FROM run WHERE key = :run AND instr(definition, :digest))
    OR EXISTS (SELECT 1 FROM branch JOIN snapshot ON snapshot.branch = branch.key
               WHERE branch.run = :run AND instr(snapshot.data, :digest))
    OR EXISTS (SELECT 1 FROM branch JOIN event ON event.key > branch.key << 32 AND event.key < (branch.key + 1) << 32
               WHERE branch.run = :run AND (instr(event.payload, :digest) OR instr(event.delta, :digest)));

-- name: disuse_blob
DELETE FROM blob_use WHERE run = ? AND blob = ?;

-- name: size_unused_blob
SELECT length(data) FROM blob WHERE key = ? AND NOT EXISTS (SELECT 1 FROM blob_use WHERE blob = blob.key);

-- name: drop_blob
DELETE FROM blob WHERE key = ?;

-- name: drop_branch_snapshots
DELETE FROM snapshot WHERE branch = ?;

-- name: drop_branch_marks
DELETE FROM mark WHERE branch = ?;

-- name: drop_branches
DELETE FROM branch WHERE run = ?;

-- name: drop_run
DELETE FROM run WHERE key = ?;

-- name: put_resource
INSERT INTO resource (id, data) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET data = excluded.data;

-- name: remove_resource
DELETE FROM resource WHERE id = ?;

-- name: resources
SELECT id, data FROM resource ORDER BY key;
