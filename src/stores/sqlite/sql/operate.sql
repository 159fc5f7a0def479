-- :unready
DELETE FROM millrace_ready WHERE queue = ? AND lane = ? AND seq = ?

-- :cancel
UPDATE millrace_job SET state = 7, due_at = NULL, cancel_reason = ?, finished_at = ?, expires_at = ? WHERE seq = ?

-- :ask  the running job's worker will hear of it
UPDATE millrace_job SET cancel_reason = ? WHERE seq = ?

-- :retry  a new life: attempts, crashes and what came of them start again
UPDATE millrace_job SET
  state = ?, kind = ?, due_at = ?, ready_at = ?, attempt = 0, crashes = 0, retry_delay = 0, input = coalesce(?, input),
  overrides = coalesce(?, overrides), started_at = iif(?, NULL, started_at), finished_at = NULL, expires_at = NULL, result = NULL, cause = NULL,
  cancel_reason = NULL, progress = NULL
WHERE seq = ?

-- :setTraffic
UPDATE millrace_job SET grp = ?, key = ?, gated = ? WHERE seq = ?

-- :setDedupe
UPDATE millrace_job SET dedupe = ? WHERE seq = ?

-- :setSearch
UPDATE millrace_job SET search = ? WHERE seq = ?

-- :setGuard
UPDATE millrace_job SET guard = ? WHERE seq = ?
