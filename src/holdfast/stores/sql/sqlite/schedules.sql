-- name: add_schedule
INSERT INTO schedule (id, name, version, next_us, queued_us, held_until_us, data)
VALUES (:id, :name, :version, :next_us, :queued_us, :held_until_us, :data);

-- name: taken
SELECT id, name FROM schedule WHERE id = :id OR name = :name;

-- name: key_and_version
SELECT key, version FROM schedule WHERE id = ?;

-- name: set_schedule
UPDATE schedule
SET version = :version, next_us = :next_us, queued_us = :queued_us, held_until_us = :held_until_us, data = :data
WHERE id = :id;

-- name: delete_schedule
DELETE FROM schedule WHERE key = ?;

-- name: delete_ticks
DELETE FROM tick WHERE schedule = ?;

-- name: schedule
-- An id goes before a name that looks like one.
SELECT data FROM schedule WHERE id = :id OR name = :id ORDER BY id = :id DESC LIMIT 1;

-- name: schedules
SELECT data FROM schedule ORDER BY name;

-- name: due
SELECT data FROM schedule
WHERE held_until_us <= :now_us AND (next_us <= :now_us OR queued_us IS NOT NULL)
ORDER BY ifnull(queued_us, next_us), key;

-- name: next_due
SELECT min(max(next_us, held_until_us)) FROM schedule WHERE next_us IS NOT NULL;

-- name: active_jobs
SELECT id FROM job
WHERE status IN ('awaiting_approval', 'queued', 'running', 'waiting', 'paused') AND EXISTS (
    SELECT 1 FROM job_label WHERE job_label.job = job.key AND label = 'schedule' AND job_label.value = :name)
ORDER BY key LIMIT :limit;

-- name: add_tick
INSERT INTO tick (schedule, due_us, number, at_us, outcome, reason, job)
VALUES (:schedule, :due_us, :number, :at_us, :outcome, :reason, :job)
ON CONFLICT (schedule, due_us, number) DO UPDATE
SET at_us = excluded.at_us, outcome = excluded.outcome, reason = excluded.reason, job = excluded.job
WHERE tick.outcome = 'queued';

-- name: prune_ticks
DELETE FROM tick WHERE schedule = :schedule AND key <= (
    SELECT key FROM tick WHERE schedule = :schedule ORDER BY key DESC LIMIT 1 OFFSET :kept);

-- name: ticks
SELECT schedule.id, due_us, at_us, outcome, reason, job, number, tick.key
FROM schedule JOIN tick ON tick.schedule = schedule.key
WHERE schedule.id = :id AND tick.key < :before
ORDER BY tick.key DESC LIMIT :limit;

-- name: last_ticks
SELECT schedule.id, due_us, at_us, outcome, reason, job, number, tick.key
FROM schedule JOIN tick ON tick.key = (SELECT max(key) FROM tick WHERE tick.schedule = schedule.key);
