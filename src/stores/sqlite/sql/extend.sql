-- :held
SELECT j.id, l.token, l.seq, j.kind, j.cancel_reason
FROM millrace_lease l JOIN millrace_job j ON j.seq = l.seq WHERE l.worker = ?

-- :progress
UPDATE millrace_job SET progress = ? WHERE seq = ?

-- :nextLog
SELECT coalesce(max(n), 0) + 1 FROM millrace_log WHERE seq = ?

-- :log
INSERT INTO millrace_log (seq, n, at, level, text) VALUES (?, ?, ?, ?, ?)

-- :trimLogs
DELETE FROM millrace_log WHERE seq = ? AND n <= ?
