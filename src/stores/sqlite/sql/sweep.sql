-- :due
SELECT seq, kind, state FROM millrace_job WHERE due_at <= ? ORDER BY due_at LIMIT ?

-- :promote
UPDATE millrace_job SET state = 1, ready_at = ?, due_at = NULL WHERE seq = ?

-- :nextDue
SELECT min(due_at) FROM millrace_job WHERE due_at IS NOT NULL

-- :expired
SELECT seq, kind, state, cause, expires_at FROM millrace_job WHERE state = ? AND expires_at <= ? ORDER BY expires_at LIMIT ?

-- :finished  those behind a place, closest to their expiry first
SELECT seq, kind, state, cause, expires_at FROM millrace_job
WHERE state = ? AND expires_at IS NOT NULL AND (expires_at, seq) > (?, ?) ORDER BY expires_at, seq LIMIT ?

-- :lastOf  the job that a flow leads to, for another one of it
SELECT state FROM millrace_job WHERE id = ? AND seq <> ?

-- :postpone
UPDATE millrace_job SET expires_at = ? WHERE seq = ?

-- :kept  how many finished jobs of a state there are
SELECT coalesce(sum(n), 0) FROM millrace_tally WHERE what = ?

-- :lost  workers whose lease ran out
SELECT num, id FROM millrace_worker WHERE expires_at <= ? LIMIT ?

-- :orphans
SELECT l.seq, l.token, j.id, j.kind, j.attempt, j.crashes, j.cancel_reason
FROM millrace_lease l JOIN millrace_job j ON j.seq = l.seq WHERE l.worker = ? LIMIT ?

-- :forgetWorker
DELETE FROM millrace_worker WHERE num = ? AND NOT EXISTS (SELECT 1 FROM millrace_lease WHERE worker = ?)
