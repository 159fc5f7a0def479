-- :held  how many of these are still under this lease, and since when
SELECT count(*) AS n, max(at) AS at FROM millrace_lease WHERE worker = ? AND seq BETWEEN ? AND ? AND token = ?

-- :releaseAll
DELETE FROM millrace_lease WHERE worker = ? AND seq BETWEEN ? AND ?

-- :release  the guard of every settlement: a lease that is gone or has another token changes nothing
DELETE FROM millrace_lease WHERE worker = ? AND seq = ? AND token = ? RETURNING at, logged

-- :remove
DELETE FROM millrace_job WHERE seq BETWEEN ? AND ?

-- :removeAttempts
DELETE FROM millrace_attempt WHERE seq BETWEEN ? AND ?

-- :removeLogs
DELETE FROM millrace_log WHERE seq BETWEEN ? AND ?

-- :removeSteps
DELETE FROM millrace_step WHERE seq BETWEEN ? AND ?

-- :beside  what is kept beside jobs at these positions
WITH at (first, last) AS (SELECT ?, ?)
SELECT EXISTS (SELECT 1 FROM millrace_attempt WHERE seq BETWEEN first AND last) AS attempts,
  EXISTS (SELECT 1 FROM millrace_log WHERE seq BETWEEN first AND last) AS logs,
  EXISTS (SELECT 1 FROM millrace_step WHERE seq BETWEEN first AND last) AS steps,
  EXISTS (SELECT 1 FROM millrace_link WHERE parent BETWEEN first AND last) AS links,
  EXISTS (SELECT 1 FROM millrace_parent WHERE seq BETWEEN first AND last) AS parents
FROM at

-- :removeLinks
DELETE FROM millrace_link WHERE parent BETWEEN ? AND ?

-- :removeParents
DELETE FROM millrace_parent WHERE seq BETWEEN ? AND ?

-- :completeSilent
UPDATE millrace_job SET
  state = 5, attempt = attempt + 1, started_at = ?, finished_at = ?, expires_at = ?, cancel_reason = NULL
WHERE seq BETWEEN ? AND ?

-- :complete
UPDATE millrace_job SET
  state = 5, attempt = attempt + 1, started_at = ?, finished_at = ?, expires_at = ?, cancel_reason = NULL, result = ?
WHERE seq = ?

-- :move  any other outcome
UPDATE millrace_job SET
  state = ?, attempt = attempt + ?, crashes = crashes + ?, retry_delay = ?, due_at = ?, started_at = coalesce(?, started_at),
  finished_at = ?, expires_at = ?, result = ?, failure = coalesce(?, failure), cause = ?, cancel_reason = iif(?, cancel_reason, ?)
WHERE seq = ?
RETURNING id, attempt, crashes

-- :asked  why the running job was asked to stop, and its key where a newer job may have it
SELECT cancel_reason AS reason, dedupe, created_at, started_at FROM millrace_job WHERE seq = ?

-- :ready
INSERT INTO millrace_ready (queue, lane, seq) VALUES (?, ?, ?)

-- :attempt
INSERT OR REPLACE INTO millrace_attempt (seq, n, started_at, ended_at, worker, state, failure) VALUES (?, ?, ?, ?, ?, ?, ?)

-- :nextAttempt  attempts given back do not count, so the history has a numbering of its own
SELECT coalesce(max(n), 0) + 1 FROM millrace_attempt WHERE seq = ?

-- :trimAttempts
DELETE FROM millrace_attempt WHERE seq = ? AND n <= ?

-- :died
INSERT INTO millrace_cause (cause, name, message, n, first_at, last_at, sample) VALUES (?, ?, ?, 1, ?, ?, ?)
ON CONFLICT (cause) DO UPDATE SET n = n + 1, last_at = excluded.last_at, message = excluded.message, sample = excluded.sample

-- :undied
UPDATE millrace_cause SET n = n - 1 WHERE cause = ?

-- :forgetCause
DELETE FROM millrace_cause WHERE cause = ? AND n <= 0
