-- :holder
SELECT id, since FROM millrace_holder WHERE name = ? AND key = ?

-- :hold
INSERT INTO millrace_holder (name, key, id, since, expires_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name, key) DO UPDATE SET id = excluded.id, since = excluded.since, expires_at = excluded.expires_at

-- :replace  the waiting job becomes the new one, but for its id
UPDATE millrace_job SET
  kind = ?, state = ?, input = ?, overrides = ?, tags = ?, metadata = ?, grp = ?, key = ?, gated = ?,
  attempt = 0, crashes = 0, retry_delay = 0, due_at = ?, ready_at = ?
WHERE seq = ?

-- :newer  whoever else has the key of this job
SELECT h.id FROM millrace_job j JOIN millrace_kind k ON k.id = j.kind
JOIN millrace_holder h ON h.name = k.name AND h.key = j.dedupe WHERE j.seq = ? AND h.id <> j.id

-- :expired
SELECT h.name, h.key, h.id, j.state FROM millrace_holder h LEFT JOIN millrace_job j ON j.id = h.id
WHERE h.expires_at <= ? ORDER BY h.expires_at LIMIT ?

-- :renew
UPDATE millrace_holder SET expires_at = ? WHERE name = ? AND key = ?

-- :forget
DELETE FROM millrace_holder WHERE name = ? AND key = ?
