-- name: add_job
INSERT INTO job (id, backwards, flow, name, status, version, reason, priority, lane, open_needs, worker, runs,
    wake_us, created_us, updated_us, archived, webhook)
VALUES (:id, :backwards, :flow, :name, :status, 0, :reason, :priority, :lane, 0, '', 0, NULL, :created_us, :created_us, 0,
    :webhook);

-- name: add_data
INSERT INTO job_data (job, definition, inputs, outputs, asks) VALUES (?, ?, ?, NULL, '[]');

-- name: add_label
INSERT INTO job_label (job, label, value) VALUES (?, ?, ?);

-- name: add_need
INSERT OR IGNORE INTO job_need (job, need) VALUES (?, ?);

-- name: add_change
INSERT INTO job_change (job, source, target, at_us, reason, by) VALUES (?, ?, ?, ?, ?, ?);

-- name: key_and_status
SELECT key, status FROM job WHERE id = ?;

-- name: move
-- The only statement that writes the status of a job that is there.
UPDATE job
SET status = :target, version = version + 1, reason = :reason, worker = :worker, runs = runs + (:worker <> ''),
    wake_us = :wake_us, updated_us = :now_us,
    started_us = CASE WHEN :worker <> '' THEN ifnull(started_us, :now_us) ELSE started_us END, ended_us = :ended_us
WHERE id = :id AND status = :source AND version = :version
RETURNING key, webhook;

-- name: set_outputs
UPDATE job_data SET outputs = ? WHERE job = ?;

-- name: set_asks
UPDATE job_data SET asks = ? WHERE job = ?;

-- name: recount_needs
-- A job that has begun needs nothing any more: it would wait for what may never come, in nobody's hands.
UPDATE job SET open_needs = CASE WHEN runs > 0 THEN 0 ELSE (
    SELECT count(*) FROM job_need JOIN job AS needed ON needed.key = job_need.need
    WHERE job_need.job = job.key AND needed.status <> 'completed') END
WHERE key = ?;

-- name: lost_need
-- A need that will not be met unless someone sees to it.
SELECT needed.id, needed.status FROM job JOIN job_need ON job_need.job = job.key JOIN job AS needed ON needed.key = job_need.need
WHERE job.id = ? AND job.runs = 0 AND needed.status IN ('failed', 'cancelled') LIMIT 1;

-- name: recount_dependents
UPDATE job SET open_needs = CASE WHEN runs > 0 THEN 0 ELSE (
    SELECT count(*) FROM job_need JOIN job AS needed ON needed.key = job_need.need
    WHERE job_need.job = job.key AND needed.status <> 'completed') END
WHERE key IN (SELECT job FROM job_need WHERE need = ?);

-- name: dependents
SELECT job.id, job.status, job.version FROM job_need JOIN job ON job.key = job_need.job
WHERE job_need.need = ? AND job.runs = 0 AND job.status IN ('awaiting_approval', 'queued', 'paused');

-- name: running_lanes
SELECT lane, count(*) FROM job WHERE status = 'running' GROUP BY lane;

-- name: ready_lanes
-- The distinct lanes of the queue, each found by one seek.
WITH RECURSIVE lanes (lane) AS (
    SELECT min(lane) FROM job INDEXED BY job_ready WHERE status = 'queued' AND open_needs = 0
    UNION ALL
    SELECT (SELECT min(job.lane) FROM job INDEXED BY job_ready
            WHERE job.status = 'queued' AND job.open_needs = 0 AND job.lane > lanes.lane)
    FROM lanes WHERE lanes.lane IS NOT NULL
)
SELECT lane FROM lanes WHERE lane IS NOT NULL;

-- name: ready_in_lane
SELECT priority, key, id, version FROM job INDEXED BY job_ready
WHERE status = 'queued' AND open_needs = 0 AND lane = ? ORDER BY priority DESC, key LIMIT ?;

-- name: ready
SELECT lane, version FROM job WHERE id = ? AND status = 'queued' AND open_needs = 0;

-- name: due
SELECT id, version FROM job WHERE status = 'waiting' AND wake_us IS NOT NULL AND wake_us <= ? ORDER BY wake_us;

-- name: next_due
SELECT min(wake_us) FROM job WHERE status = 'waiting' AND wake_us IS NOT NULL;

-- name: version_of
SELECT key, status, version, webhook FROM job WHERE id = ?;

-- name: asks
SELECT asks FROM job_data WHERE job = ?;

-- name: held
SELECT id, status, version FROM job WHERE worker = ? AND worker <> '' ORDER BY key;

-- name: archive
UPDATE job SET archived = ?, updated_us = ? WHERE id = ? AND status IN ('completed', 'failed', 'cancelled');

-- name: delete_job
DELETE FROM job WHERE key = ?;

-- name: delete_data
DELETE FROM job_data WHERE job = ?;

-- name: delete_labels
DELETE FROM job_label WHERE job = ?;

-- name: delete_needs
DELETE FROM job_need WHERE job = ?;

-- name: delete_needed
DELETE FROM job_need WHERE need = ?;

-- name: delete_changes
DELETE FROM job_change WHERE job = ?;

-- name: delete_requests
DELETE FROM job_request WHERE job = ?;

-- name: job
SELECT job.key, id, flow, status, created_us, definition, inputs, name, priority, lane, version, reason, outputs, asks, wake_us,
    worker, runs, updated_us, started_us, ended_us, archived, webhook
FROM job JOIN job_data ON job_data.job = job.key WHERE id = ?;

-- name: jobs
SELECT job.key, id, flow, status, created_us, '{}', inputs, name, priority, lane, version, reason, outputs, asks, wake_us,
    worker, runs, updated_us, started_us, ended_us, archived, webhook
FROM job JOIN job_data ON job_data.job = job.key
WHERE job.key < :before
    AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
    AND (:flow = '' OR flow = :flow)
    AND (:archived IS NULL OR archived = :archived)
    AND (:text = '' OR instr(lower(id || char(10) || flow || char(10) || name || char(10) || reason), lower(:text)))
    AND NOT EXISTS (
        SELECT 1 FROM json_each(:labels) AS wanted
        WHERE NOT EXISTS (SELECT 1 FROM job_label
                          WHERE job_label.job = job.key AND label = wanted.key AND job_label.value = wanted.value))
ORDER BY job.key DESC LIMIT :limit;

-- name: labels
SELECT label, value FROM job_label WHERE job = ? ORDER BY label;

-- name: needs
SELECT job.id FROM job_need JOIN job ON job.key = job_need.need WHERE job_need.job = ? ORDER BY job.key;

-- name: begins
SELECT id FROM job WHERE id >= :prefix AND id < :prefix || char(1114111) ORDER BY id LIMIT :limit;

-- name: ends
SELECT id FROM job WHERE backwards >= :prefix AND backwards < :prefix || char(1114111) ORDER BY backwards LIMIT :limit;

-- name: count
SELECT status, count(*) FROM job
WHERE status IN ('awaiting_approval', 'queued', 'running', 'waiting', 'paused') GROUP BY status;

-- name: changes
SELECT seq, job.id, source, target, at_us, job_change.reason, by FROM job_change JOIN job ON job.key = job_change.job
WHERE seq > ? ORDER BY seq LIMIT ?;

-- name: changes_of_job
SELECT seq, job.id, source, target, at_us, job_change.reason, by FROM job JOIN job_change ON job_change.job = job.key
WHERE job.id = ? AND seq > ? ORDER BY seq LIMIT ?;

-- name: last_change
SELECT ifnull(max(seq), 0) FROM job_change;

-- name: find_request
SELECT data, kind FROM job_request WHERE id = ?;

-- name: add_request
INSERT INTO job_request (id, job, kind, at_us, data, by) VALUES (?, ?, ?, ?, ?, ?);

-- name: requests_of_worker
SELECT job_request.id, job.id, kind, at_us, data, by FROM job JOIN job_request ON job_request.job = job.key
WHERE job.worker = ? AND job.worker <> '' ORDER BY job_request.key;

-- name: requests_of_job
SELECT job_request.id, job.id, kind, at_us, data, by FROM job JOIN job_request ON job_request.job = job.key
WHERE job.id = ? ORDER BY job_request.key;

-- name: settle
DELETE FROM job_request WHERE id = ?;

-- name: register
INSERT INTO worker (id, owner, held_until_us, started_us, serving) VALUES (?, ?, ?, ?, ?);

-- name: renew
UPDATE worker SET held_until_us = ?, serving = ? WHERE id = ?;

-- name: other_serving
SELECT 1 FROM worker WHERE serving AND id <> ? AND held_until_us > ?;

-- name: workers
SELECT owner, held_until_us, started_us, serving FROM worker ORDER BY key;

-- name: is_registered
SELECT 1 FROM worker WHERE id = ?;

-- name: strike
DELETE FROM worker WHERE id = ?;
