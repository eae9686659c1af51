-- A mark that comes with the row it is named after is written into that row: a commit writes two pages less. `mark` gets it
-- later, together with others.

ALTER TABLE event ADD COLUMN mark_trigger TEXT; -- NULL: the row's type
ALTER TABLE event ADD COLUMN mark_parent BLOB;
ALTER TABLE event ADD COLUMN mark_size INTEGER; -- NULL: the row has no mark

-- A key of `event`, set when a session opens. Marks in rows after it, on its branch, are not in `mark` yet while the session is
-- open; when it ends they are all there.
ALTER TABLE run ADD COLUMN listed INTEGER NOT NULL DEFAULT 0;
CREATE INDEX run_held ON run (key) WHERE fence <> 0;

-- CROSS JOIN and the plus: from runs to events whatever is asked for, and no index made for the occasion. Else all events would be
-- read.
CREATE VIEW mark_in_row (key, run_key, id, seq, at_us, trigger, branch, run, parent_id, size) AS
SELECT event.key, run.key, +event.event_id, event.key & 0xFFFFFFFF, event.at_us, ifnull(event.mark_trigger, event.type),
    branch.name, run.id, event.mark_parent, event.mark_size
FROM run CROSS JOIN branch ON branch.key = run.listed >> 32
    CROSS JOIN event ON event.key > run.listed AND event.key < (branch.key + 1) << 32
WHERE run.fence <> 0 AND event.mark_size IS NOT NULL;
