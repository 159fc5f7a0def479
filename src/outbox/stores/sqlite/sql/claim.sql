-- :waits
-- Whether a slot has a row at all.
SELECT 1 FROM millrace_outbox_waiting WHERE kind = ? AND slot = ? LIMIT 1

-- :lease
-- Takes a slot unless it is another's: kind, slot, token, until, now.
INSERT INTO millrace_outbox_lease (kind, slot, token, until) VALUES (?, ?, ?, ?)
ON CONFLICT (kind, slot) DO UPDATE SET token = excluded.token, until = excluded.until WHERE until <= ?

-- :rows
-- kind, slot, now, limit
SELECT w.seq, w.slot, w.id, w.key, w.topic, w.body, w.headers, w.at, h.attempts
FROM millrace_outbox_waiting w
LEFT JOIN millrace_outbox_hold h ON h.kind = w.kind AND h.slot = w.slot AND h.line = coalesce('k' || w.key, CAST(w.seq AS TEXT))
WHERE w.kind = ? AND w.slot = ? AND (h.until IS NULL OR h.until <= ?)
ORDER BY w.seq LIMIT ?

-- :holds
-- Whether a claim still has a slot: kind, slot, token.
SELECT 1 FROM millrace_outbox_lease WHERE kind = ? AND slot = ? AND token = ?

-- :unlease
DELETE FROM millrace_outbox_lease WHERE kind = ? AND slot = ? AND token = ?

-- :delete
DELETE FROM millrace_outbox_waiting WHERE kind = ? AND slot = ? AND seq = ?

-- :keep
INSERT INTO millrace_outbox_sent (kind, id, key, topic, body, headers, at, sent_at)
SELECT kind, id, key, topic, body, headers, at, ? FROM millrace_outbox_waiting WHERE kind = ? AND slot = ? AND seq = ?

-- :hold
INSERT INTO millrace_outbox_hold (kind, slot, line, attempts, until, failure) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (kind, slot, line) DO UPDATE
SET attempts = excluded.attempts, until = excluded.until, failure = excluded.failure

-- :free
DELETE FROM millrace_outbox_hold WHERE kind = ? AND slot = ? AND line = ?

-- :setAside
INSERT INTO millrace_outbox_aside (kind, slot, id, key, topic, body, headers, at, aside_at, attempts, failure)
SELECT kind, slot, id, key, topic, body, headers, at, ?, ?, ? FROM millrace_outbox_waiting WHERE kind = ? AND slot = ? AND seq = ?
