-- :take  the head of a lane
SELECT j.seq, j.id, j.kind, j.input, j.attempt, j.crashes, j.created_at, j.ready_at, j.retry_delay, j.overrides, j.tags, j.metadata, j.stepped, j.cancel_reason
FROM millrace_ready r JOIN millrace_job j ON j.seq = r.seq
WHERE r.queue = ? AND r.lane = ?
ORDER BY r.seq LIMIT ?

-- :head
SELECT seq FROM millrace_ready WHERE queue = ? AND lane = ? LIMIT 1

-- :again  what a claim that is asked a second time holds already
SELECT j.seq, j.id, j.kind, j.input, j.attempt, j.crashes, j.created_at, j.ready_at, j.retry_delay, j.overrides, j.tags, j.metadata, j.stepped, j.cancel_reason, j.grp, j.key, j.gated, l.at
FROM millrace_lease l JOIN millrace_job j ON j.seq = l.seq
WHERE l.worker = ? AND l.token = ?

-- :lease  the same head; the write lock is held, so nothing came in between
INSERT INTO millrace_lease (worker, seq, token, at)
SELECT ?, r.seq, ?, ? FROM millrace_ready r JOIN millrace_job j ON j.seq = r.seq
WHERE r.queue = ? AND r.lane = ? ORDER BY r.seq LIMIT ?

-- :leaseEach
INSERT INTO millrace_lease (worker, seq, token, at) SELECT ?, value, ?, ? FROM json_each(?)

-- :leave
DELETE FROM millrace_ready WHERE queue = ? AND lane = ? AND seq <= ?

-- :renew  a worker's lease; nothing changes when its row is gone
UPDATE millrace_worker SET expires_at = ? WHERE num = ? AND id = ?

-- :register
INSERT INTO millrace_worker (id, expires_at) VALUES (?, ?)
ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at
RETURNING num
