-- :add
INSERT INTO millrace_wait (seq, step, key, after) VALUES (?, ?, ?, ?)

-- :of
SELECT step, key, after FROM millrace_wait WHERE seq = ? ORDER BY n

-- :forget
DELETE FROM millrace_wait WHERE seq = ?

-- :wake
UPDATE millrace_job SET state = 1, ready_at = ?, due_at = NULL WHERE seq = ? AND state = 4 RETURNING kind
