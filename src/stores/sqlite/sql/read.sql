-- :byId
SELECT j.*, l.at AS lease_at, w.id AS lease_worker
FROM millrace_job j
LEFT JOIN millrace_worker w ON EXISTS (SELECT 1 FROM millrace_lease x WHERE x.worker = w.num AND x.seq = j.seq)
LEFT JOIN millrace_lease l ON l.worker = w.num AND l.seq = j.seq
WHERE j.id = ?

-- :seqById
SELECT seq FROM millrace_job WHERE id = ?

-- :attempts
SELECT n, started_at, ended_at, worker, state, failure FROM millrace_attempt WHERE seq = ? ORDER BY n

-- :logs
SELECT at, level, text FROM millrace_log WHERE seq = ? ORDER BY n

-- :pending
SELECT j.*, NULL AS lease_at, NULL AS lease_worker, r.queue AS k1, r.lane AS k2, r.seq AS k3
FROM millrace_ready r JOIN millrace_job j ON j.seq = r.seq
WHERE (r.queue, r.lane, r.seq) > (?, ?, ?) ORDER BY r.queue, r.lane, r.seq LIMIT ?

-- :inTurn  pending jobs with limits or groups, by the place they wait in, numbered behind all queues
SELECT j.*, NULL AS lease_at, NULL AS lease_worker, t.line + 1099511627776 AS k1, t.rank AS k2, t.seq AS k3
FROM millrace_turn t JOIN millrace_job j ON j.seq = t.seq
WHERE (t.line, t.rank, t.seq) > (? - 1099511627776, ?, ?) ORDER BY t.line, t.rank, t.seq LIMIT ?

-- :running
SELECT j.*, l.at AS lease_at, w.id AS lease_worker, l.worker AS k1, l.seq AS k2, 0 AS k3
FROM millrace_lease l JOIN millrace_job j ON j.seq = l.seq JOIN millrace_worker w ON w.num = l.worker
WHERE (l.worker, l.seq) > (?, ?) ORDER BY l.worker, l.seq LIMIT ?

-- :waiting  scheduled and retrying jobs, soonest first
SELECT *, NULL AS lease_at, NULL AS lease_worker, due_at AS k1, seq AS k2, 0 AS k3
FROM millrace_job WHERE due_at IS NOT NULL AND (due_at, seq) > (?, ?) ORDER BY due_at, seq LIMIT ?

-- :blocked  the soonest first, then those that no time wakes
SELECT *, NULL AS lease_at, NULL AS lease_worker, coalesce(due_at, 9007199254740991) AS k1, seq AS k2, 0 AS k3
FROM millrace_job WHERE state = 4 AND coalesce(due_at, 9007199254740991) > ?
ORDER BY coalesce(due_at, 9007199254740991), seq LIMIT ?

-- :blockedAlike  the rest of those of one time
SELECT *, NULL AS lease_at, NULL AS lease_worker, coalesce(due_at, 9007199254740991) AS k1, seq AS k2, 0 AS k3
FROM millrace_job WHERE state = 4 AND coalesce(due_at, 9007199254740991) = ? AND seq > ? ORDER BY seq LIMIT ?

-- :finished  newest first
SELECT *, NULL AS lease_at, NULL AS lease_worker, expires_at AS k1, seq AS k2, 0 AS k3
FROM millrace_job WHERE state = ? AND expires_at IS NOT NULL AND (expires_at, seq) < (?, ?)
ORDER BY expires_at DESC, seq DESC LIMIT ?

-- :causeMembers
SELECT *, NULL AS lease_at, NULL AS lease_worker, expires_at AS k1, seq AS k2, 0 AS k3
FROM millrace_job WHERE cause = ? AND (expires_at, seq) < (?, ?)
ORDER BY expires_at DESC, seq DESC LIMIT ?

-- :tally
SELECT kind, what, n FROM millrace_tally

-- :causes
SELECT cause, name, message, n AS count, first_at AS firstAt, last_at AS lastAt, sample
FROM millrace_cause WHERE n > 0 ORDER BY last_at DESC LIMIT ?

-- :paused
SELECT name FROM millrace_queue WHERE paused = 1 ORDER BY name
