-- :waiting
-- Of one kind, up to a number.
SELECT count(*) FROM (SELECT 1 FROM millrace_outbox_waiting WHERE kind = ? LIMIT ?)

-- :oldest
-- When the first row of a slot was written.
SELECT at FROM millrace_outbox_waiting WHERE kind = ? AND slot = ? ORDER BY seq LIMIT 1

-- :held
-- Of one kind, over later than a time; one that was over long ago is of a row that has gone.
SELECT count(*) FROM (SELECT 1 FROM millrace_outbox_hold WHERE kind = ? AND until > ? LIMIT ?)

-- :countAside
SELECT count(*) FROM (SELECT 1 FROM millrace_outbox_aside LIMIT ?)

-- :aside
SELECT position, kind, slot, id, key, topic, body, headers, at, aside_at AS asideAt, attempts, failure
FROM millrace_outbox_aside WHERE position > ? ORDER BY position LIMIT ?

-- :retry
INSERT INTO millrace_outbox_waiting (kind, slot, seq, id, key, topic, body, headers, at)
SELECT a.kind, a.slot, row_number() OVER (PARTITION BY a.kind, a.slot ORDER BY a.position) + coalesce(
    (SELECT max(w.seq) FROM millrace_outbox_waiting w WHERE w.kind = a.kind AND w.slot = a.slot), 0),
  a.id, a.key, a.topic, a.body, a.headers, a.at
FROM millrace_outbox_aside a WHERE a.id = ?

-- :discard
DELETE FROM millrace_outbox_aside WHERE id = ?
