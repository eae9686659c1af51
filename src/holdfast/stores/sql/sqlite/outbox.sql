-- name: add_delivery
INSERT INTO delivery (id, job_id, event, target, body, created_us, status, attempts, next_us, error, owner)
VALUES (:id, :job_id, :event, :target, :body, :created_us, 'pending', 0,
    CASE WHEN EXISTS (SELECT 1 FROM delivery WHERE status = 'pending' AND job_id = :job_id AND target = :target)
    THEN NULL ELSE :created_us END, '', '');

-- name: due
SELECT key FROM delivery WHERE next_us IS NOT NULL AND next_us <= ? ORDER BY next_us LIMIT ?;

-- name: next_due
SELECT min(next_us) FROM delivery WHERE next_us IS NOT NULL;

-- name: backlog
SELECT
    (SELECT count(*) FROM delivery WHERE status = 'pending'),
    (SELECT count(*) FROM delivery WHERE status = 'pending' AND error <> ''),
    (SELECT count(*) FROM delivery WHERE status = 'delivered' AND settled_us IS NOT NULL),
    (SELECT count(*) FROM delivery WHERE status = 'dead' AND settled_us IS NOT NULL),
    (SELECT min(created_us) FROM delivery WHERE status = 'pending');

-- name: claim
UPDATE delivery SET owner = :owner, attempts = attempts + 1, next_us = :until_us WHERE key = :key
RETURNING id, job_id, event, target, body, created_us, status, attempts, next_us, error, owner, settled_us;

-- name: settle
-- Only by whoever claimed it last: the number of attempts tells claims of one owner apart.
UPDATE delivery SET status = :status, next_us = :next_us, error = :error, settled_us = :settled_us
WHERE id = :id AND owner = :owner AND attempts = :attempts AND status = 'pending';

-- name: release_next
-- Called when the first of a row is settled: the next one may go.
UPDATE delivery SET next_us = :now_us WHERE key = (
    SELECT min(key) FROM delivery WHERE status = 'pending' AND job_id = :job_id AND target = :target)
AND next_us IS NULL;

-- name: retry
UPDATE delivery SET status = 'pending', attempts = 0, next_us = :now_us, owner = '', settled_us = NULL
WHERE id = :id AND (status = 'dead' OR (status = 'pending' AND next_us IS NOT NULL));

-- name: delivery
SELECT id, job_id, event, target, body, created_us, status, attempts, next_us, error, owner, settled_us
FROM delivery WHERE id = ?;

-- name: deliveries
SELECT id, job_id, event, target, body, created_us, status, attempts, next_us, error, owner, settled_us
FROM delivery
WHERE (:job_id = '' OR job_id = :job_id)
    AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
ORDER BY key DESC LIMIT :limit;

-- name: prune
DELETE FROM delivery WHERE status = ? AND settled_us IS NOT NULL AND settled_us < ?;

-- name: begin_tail
-- From where the journal ends now: what happened before anybody wanted to know is not told.
INSERT OR IGNORE INTO step_tail (job_id, run, position) VALUES (:job_id, :run, ifnull((
    SELECT max(event.key) FROM run JOIN branch ON branch.run = run.key
    JOIN event ON event.key > branch.key << 32 AND event.key < (branch.key + 1) << 32
    WHERE run.id = :run AND branch.key = (SELECT max(key) FROM branch WHERE run = run.key)), 0));

-- name: end_tail
DELETE FROM step_tail WHERE job_id = ?;

-- name: heads
-- Tails whose journal has grown, on the branch that their run took last: of one job, or of all.
SELECT job_id, run, max(position, branch << 32), head FROM (
    SELECT step_tail.job_id, step_tail.run, position, branch.key AS branch, (
        SELECT max(event.key) FROM event WHERE event.key > branch.key << 32 AND event.key < (branch.key + 1) << 32) AS head
    FROM step_tail JOIN run ON run.id = step_tail.run JOIN branch ON branch.run = run.key
    WHERE (:job_id = '' OR step_tail.job_id = :job_id)
        AND branch.key = (SELECT max(key) FROM branch WHERE run = run.key))
WHERE head > position;

-- name: new_steps
SELECT at_us, payload FROM event
WHERE key > :after AND key <= :head AND type = 'step_completed' AND run_id = :run ORDER BY key;

-- name: move_tail
UPDATE step_tail SET position = ? WHERE job_id = ?;
