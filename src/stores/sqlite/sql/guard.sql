-- :find
SELECT holder, by_job, done, since, expires_at, result, stands_until FROM millrace_guard WHERE key = ?

-- :take
INSERT INTO millrace_guard (key, holder, by_job, since, expires_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET
  holder = excluded.holder, by_job = excluded.by_job, done = 0, since = excluded.since, result = NULL, expires_at = excluded.expires_at,
  stands_until = NULL

-- :renew
UPDATE millrace_guard SET expires_at = ? WHERE key = ?

-- :complete
UPDATE millrace_guard SET done = 1, result = ?, expires_at = ?, stands_until = NULL WHERE key = ? AND holder = ? AND by_job = ? AND done = 0

-- :letGo
DELETE FROM millrace_guard WHERE key = ? AND holder = ? AND by_job = ? AND done = 0

-- :toBeReopened  see toBeReopened in core/guard.ts
UPDATE millrace_guard SET stands_until = expires_at WHERE key = ? AND holder = ? AND by_job = 1 AND done = 1 AND expires_at > ?

-- :reopen  see reopened in core/guard.ts
UPDATE millrace_guard SET done = 0, since = ?, expires_at = NULL WHERE key = ?

-- :leaveBehind  see leftBehind in core/guard.ts
UPDATE millrace_guard SET done = 1, expires_at = stands_until, stands_until = NULL
WHERE key = ? AND holder = ? AND by_job = 1 AND stands_until IS NOT NULL

-- :ofJob
SELECT guard FROM millrace_job WHERE seq = ?

-- :guarded
SELECT id, guard, started_at FROM millrace_job WHERE seq = ?

-- :holder
SELECT state, kind FROM millrace_job WHERE id = ?

-- :isExpired
SELECT 1 FROM millrace_guard WHERE expires_at <= ? LIMIT 1

-- :forget
DELETE FROM millrace_guard WHERE key IN (SELECT key FROM millrace_guard WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)
