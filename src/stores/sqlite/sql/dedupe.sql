-- :holder
SELECT id, since FROM millrace_holder WHERE name = ? AND key = ?

-- :hold
INSERT INTO millrace_holder (name, key, id, since, expires_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name, key) DO UPDATE SET id = excluded.id, since = excluded.since, expires_at = excluded.expires_at

-- :replace  the waiting job goes on with what the new one brings
UPDATE millrace_job SET input = ?, overrides = ?, tags = ?, metadata = ? WHERE seq = ?

-- :move
UPDATE millrace_job SET due_at = ? WHERE seq = ?

-- :expired
SELECT h.name, h.key, h.id, j.state FROM millrace_holder h LEFT JOIN millrace_job j ON j.id = h.id
WHERE h.expires_at <= ? ORDER BY h.expires_at LIMIT ?

-- :renew
UPDATE millrace_holder SET expires_at = ? WHERE name = ? AND key = ?

-- :forget
DELETE FROM millrace_holder WHERE name = ? AND key = ?
