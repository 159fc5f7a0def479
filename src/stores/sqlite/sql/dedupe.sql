-- :holder
SELECT id, since FROM millrace_holder WHERE name = ? AND key = ?

-- :hold
INSERT INTO millrace_holder (name, key, id, since, expires_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name, key) DO UPDATE SET id = excluded.id, since = excluded.since, expires_at = excluded.expires_at

-- :replace  the waiting job becomes the new one, but for its id
UPDATE millrace_job SET
  kind = ?, state = ?, input = ?, overrides = ?, tags = ?, search = ?, metadata = ?, grp = ?, key = ?, gated = ?,
  dedupe = ?, guard = ?, attempt = 0, crashes = 0, retry_delay = 0, due_at = ?, ready_at = ?,
  started_at = NULL
WHERE seq = ?

-- :held  the job that has a key
SELECT j.seq, j.state, j.created_at AS createdAt, j.kind, j.grp, j.key, j.gated, j.ready_at AS readyAt, j.guard, j.stepped,
  j.family IS NOT NULL AS isParent, EXISTS (
  SELECT 1 FROM millrace_worker w JOIN millrace_lease l ON l.worker = w.num AND l.seq = j.seq
) AS leased
FROM millrace_job j WHERE id = ?

-- :stateOf
SELECT state FROM millrace_job WHERE id = ?

-- :letGo  the key, if it has it
DELETE FROM millrace_holder WHERE id = ? AND name = ? AND key = ?

-- :expired
SELECT h.name, h.key, h.id, j.state FROM millrace_holder h LEFT JOIN millrace_job j ON j.id = h.id
WHERE h.expires_at <= ? ORDER BY h.expires_at LIMIT ?

-- :renew
UPDATE millrace_holder SET expires_at = ? WHERE name = ? AND key = ?

-- :forget
DELETE FROM millrace_holder WHERE name = ? AND key = ?

-- :runningKeys
SELECT DISTINCT k.name, j.dedupe AS key FROM millrace_lease l JOIN millrace_job j ON j.seq = l.seq
JOIN millrace_kind k ON k.id = j.kind WHERE j.dedupe IS NOT NULL
