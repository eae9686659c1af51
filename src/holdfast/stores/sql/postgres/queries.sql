-- name: append
-- Many batches in one statement, and so in one transaction and one round trip. `standing` holds those that may be written: their
-- run and branch are locked, so fence and head are the newest. The others are left out, and told apart afterwards.
WITH wanted AS (
    SELECT * FROM unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
                         $9::text[], $10::bigint[], $11::bigint[])
        AS w (nr, run_id, branch, fence, first, rows, low, high, status, held_until_us, changed_us)
), standing AS (
    SELECT wanted.*, run.key AS run_key, branch.key AS branch_key
    FROM wanted
    JOIN run ON run.id = wanted.run_id
    JOIN branch ON branch.run = run.key AND branch.name = wanted.branch
    WHERE run.fence = wanted.fence
        AND (wanted.rows = 0 OR branch.head = wanted.first - 1)
        AND coalesce(wanted.low, branch.fork_seq) >= branch.fork_seq
        AND wanted.high <= branch.head + wanted.rows
    FOR UPDATE OF run, branch
), added AS (
    INSERT INTO event
    SELECT branch_key, seq, type, event_id, at_us, e.run_id, payload, delta, parent_event_id, triggered_by_event_id,
        started_event_id, source_type, source_id, source_name, task_id, task_name, agent_id, agent_role
    FROM unnest($12::int[], $13::bigint[], $14::text[], $15::text[], $16::bigint[], $17::text[], $18::bytea[], $19::bytea[],
                $20::text[], $21::text[], $22::text[], $23::text[], $24::text[], $25::text[], $26::text[], $27::text[],
                $28::text[], $29::text[])
        AS e (nr, seq, type, event_id, at_us, run_id, payload, delta, parent_event_id, triggered_by_event_id,
              started_event_id, source_type, source_id, source_name, task_id, task_name, agent_id, agent_role)
    JOIN standing USING (nr)
), moved AS (
    UPDATE branch SET head = branch.head + standing.rows
    FROM standing WHERE branch.key = standing.branch_key AND standing.rows > 0
), touched AS (
    UPDATE run SET updated_us = greatest(run.updated_us, standing.changed_us), status = coalesce(standing.status, run.status),
        held_until_us = coalesce(standing.held_until_us, run.held_until_us),
        fence = CASE standing.held_until_us WHEN 0 THEN 0 ELSE run.fence END,
        owner = CASE standing.held_until_us WHEN 0 THEN '' ELSE run.owner END
    FROM standing WHERE run.key = standing.run_key
), marked AS (
    INSERT INTO mark (branch, id, seq, at_us, trigger, parent_id, size)
    SELECT DISTINCT ON (id) branch_key, id, seq, at_us, trigger, parent_id, size
    FROM unnest($30::int[], $31::text[], $32::bigint[], $33::bigint[], $34::text[], $35::text[], $36::bigint[]) WITH ORDINALITY
        AS m (nr, id, seq, at_us, trigger, parent_id, size, place)
    JOIN standing USING (nr)
    ORDER BY id, place DESC
    ON CONFLICT (id) DO UPDATE SET branch = excluded.branch, seq = excluded.seq, at_us = excluded.at_us,
        trigger = excluded.trigger, parent_id = excluded.parent_id, size = excluded.size
)
SELECT nr, run_key, branch_key FROM standing;

-- name: add_blobs
-- The update changes nothing, but locks a blob that is there, so that no prune takes it away meanwhile.
WITH stored AS (
    INSERT INTO blob (digest, data)
    SELECT DISTINCT ON (digest) digest, data FROM unnest($2::text[], $3::bytea[]) AS b (digest, data) ORDER BY digest
    ON CONFLICT (digest) DO UPDATE SET digest = excluded.digest
)
INSERT INTO blob_use (run, digest) SELECT DISTINCT run, digest FROM unnest($1::bigint[], $2::text[]) AS u (run, digest)
ON CONFLICT DO NOTHING;

-- name: add_snapshots
INSERT INTO snapshot (branch, seq, data) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[])
ON CONFLICT (branch, seq) DO UPDATE SET data = excluded.data;

-- name: standing
SELECT run.fence, branch.fork_seq, branch.head
FROM run JOIN branch ON branch.run = run.key WHERE run.id = $1 AND branch.name = $2;

-- name: stored_event
SELECT event_id FROM event JOIN branch ON branch.key = event.branch JOIN run ON run.key = branch.run
WHERE run.id = $1 AND branch.name = $2 AND event.seq = $3;

-- name: lock_run
SELECT key, incarnation, owner, held_until_us FROM run WHERE id = $1 FOR UPDATE;

-- name: add_run
INSERT INTO run (id, kind, name, status, fingerprint, definition, created_us, updated_us, incarnation, fence, owner, held_until_us)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, nextval('fence'), $9, $10)
ON CONFLICT (id) DO NOTHING RETURNING key, fence;

-- name: take_run
UPDATE run SET kind = $2, name = $3, status = $4, fingerprint = $5, definition = $6, updated_us = $7,
    incarnation = incarnation + 1, fence = nextval('fence'), owner = $8, held_until_us = $9
WHERE key = $1 RETURNING incarnation, fence;

-- name: leave_run
UPDATE run SET fence = 0, owner = '', held_until_us = 0 WHERE id = $1 AND fence = $2;

-- name: add_branch
INSERT INTO branch (run, name, parent, fork_seq, head, created_us) VALUES ($1, $2, $3, $4, $4, $5);

-- name: run
SELECT id, kind, name, status, incarnation, fingerprint, created_us, updated_us, held_until_us, definition
FROM run WHERE id = $1;

-- name: runs
SELECT id, kind, name, status, incarnation, fingerprint, created_us, updated_us, held_until_us, definition
FROM run WHERE $1::text IS NULL OR status = $1 ORDER BY updated_us DESC, fence DESC, key DESC LIMIT $2;

-- name: branches
SELECT branch.key, branch.name, branch.parent, branch.fork_seq, branch.head, branch.created_us
FROM run JOIN branch ON branch.run = run.key WHERE run.id = $1 ORDER BY branch.key;

-- name: page
SELECT seq, type, event_id, at_us, run_id, payload, delta, parent_event_id, triggered_by_event_id, started_event_id,
    source_type, source_id, source_name, task_id, task_name, agent_id, agent_role
FROM event WHERE branch = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4;

-- name: page_sizes
SELECT seq, length(payload) + coalesce(length(delta), 0)
FROM event WHERE branch = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4;

-- name: last_snapshot
SELECT seq, data FROM snapshot WHERE branch = $1 AND seq <= $2 ORDER BY seq DESC LIMIT 1;

-- name: snapshots
SELECT seq FROM snapshot WHERE branch = $1;

-- name: blob
SELECT data FROM blob WHERE digest = $1;

-- name: mark
SELECT mark.id, mark.seq, mark.at_us, mark.trigger, branch.name, run.id, mark.parent_id, mark.size
FROM mark JOIN branch ON branch.key = mark.branch JOIN run ON run.key = branch.run WHERE mark.id = $1;

-- name: marks
SELECT mark.id, mark.seq, mark.at_us, mark.trigger, branch.name, run.id, mark.parent_id, mark.size
FROM mark JOIN branch ON branch.key = mark.branch JOIN run ON run.key = branch.run
WHERE $1::text IS NULL OR run.id = $1 ORDER BY mark.at_us DESC, mark.key DESC LIMIT $2;

-- name: size_run
SELECT (
    coalesce((SELECT sum(length(payload) + coalesce(length(delta), 0))
              FROM run JOIN branch ON branch.run = run.key JOIN event ON event.branch = branch.key WHERE run.id = $1), 0)
    + coalesce((SELECT sum(length(data))
                FROM run JOIN branch ON branch.run = run.key JOIN snapshot ON snapshot.branch = branch.key WHERE run.id = $1), 0)
    + coalesce((SELECT sum(length(data))
                FROM run JOIN blob_use ON blob_use.run = run.key JOIN blob ON blob.digest = blob_use.digest WHERE run.id = $1), 0)
)::bigint;

-- name: count_events
SELECT count(*) FROM event WHERE branch = $1 AND seq > $2 AND seq <= $3;

-- name: drop_events
WITH gone AS (DELETE FROM event WHERE branch = $1 AND seq >= $2 AND seq <= $3 RETURNING payload, delta)
SELECT coalesce(sum(length(payload) + coalesce(length(delta), 0)), 0)::bigint FROM gone;

-- name: drop_snapshot
DELETE FROM snapshot WHERE branch = $1 AND seq = $2 RETURNING length(data);

-- name: drop_marks
DELETE FROM mark WHERE id = ANY ($1::text[]);

-- name: reparent_mark
UPDATE mark SET parent_id = $2 WHERE id = $1;

-- name: unmentioned
SELECT digest FROM blob_use WHERE run = $1
    AND NOT EXISTS (SELECT 1 FROM run WHERE key = $1 AND position(convert_to(digest, 'UTF8') IN definition) > 0)
    AND NOT EXISTS (SELECT 1 FROM branch JOIN snapshot ON snapshot.branch = branch.key
                    WHERE branch.run = $1 AND position(convert_to(digest, 'UTF8') IN data) > 0)
    AND NOT EXISTS (SELECT 1 FROM branch JOIN event ON event.branch = branch.key
                    WHERE branch.run = $1 AND (position(convert_to(digest, 'UTF8') IN payload) > 0
                        OR position(convert_to(digest, 'UTF8') IN delta) > 0));

-- name: used_blobs
SELECT digest FROM blob_use WHERE run = $1;

-- name: lock_blobs
-- Whoever lists one of these now waits; the statement after this one sees who did before.
SELECT digest FROM blob WHERE digest = ANY ($1::text[]) ORDER BY digest FOR UPDATE;

-- name: disuse_blobs
DELETE FROM blob_use WHERE run = $1 AND digest = ANY ($2::text[]);

-- name: drop_blobs
WITH gone AS (
    DELETE FROM blob WHERE digest = ANY ($1::text[])
        AND NOT EXISTS (SELECT 1 FROM blob_use WHERE blob_use.digest = blob.digest)
    RETURNING data
)
SELECT coalesce(sum(length(data)), 0)::bigint FROM gone;

-- name: drop_branch_events
DELETE FROM event WHERE branch = ANY ($1::bigint[]);

-- name: drop_branch_snapshots
DELETE FROM snapshot WHERE branch = ANY ($1::bigint[]);

-- name: drop_branch_marks
DELETE FROM mark WHERE branch = ANY ($1::bigint[]);

-- name: drop_run
DELETE FROM run WHERE key = $1;

-- name: put_resource
INSERT INTO resource (id, data) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET data = excluded.data;

-- name: remove_resource
DELETE FROM resource WHERE id = $1;

-- name: resources
SELECT id, data FROM resource ORDER BY key;
