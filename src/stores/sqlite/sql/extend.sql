-- :held  one job, if it is under this lease
SELECT j.cancel_reason AS reason, l.logged FROM millrace_lease l JOIN millrace_job j ON j.seq = l.seq
WHERE l.worker = ? AND l.seq = ? AND l.token = ?

-- :heldSince  all of a worker's jobs that it claimed up to then
SELECT seq, token FROM millrace_lease WHERE worker = ? AND at <= ?

-- :stray
SELECT id, kind FROM millrace_job WHERE seq = ?

-- :progress
UPDATE millrace_job SET progress = ? WHERE seq = ?

-- :logged
UPDATE millrace_lease SET logged = ? WHERE worker = ? AND seq = ?

-- :nextLog
SELECT coalesce(max(n), 0) + 1 FROM millrace_log WHERE seq = ?

-- :log
INSERT INTO millrace_log (seq, n, at, level, text) VALUES (?, ?, ?, ?, ?)

-- :trimLogs
DELETE FROM millrace_log WHERE seq = ? AND n <= ?
