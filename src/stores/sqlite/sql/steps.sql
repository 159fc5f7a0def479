-- :write  one that is there already is written anew and keeps its place
INSERT INTO millrace_step (seq, name, value, open, until, signal, at) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (seq, name) DO UPDATE SET
  value = excluded.value, open = excluded.open, until = excluded.until, signal = excluded.signal, at = excluded.at

-- :mark
UPDATE millrace_job SET stepped = 1 WHERE seq = ? AND stepped IS NULL

-- :read
SELECT name, value, open, until, signal, at FROM millrace_step WHERE seq = ? ORDER BY n

-- :endOverdue
UPDATE millrace_step SET open = 0 WHERE seq = ? AND open = 1 AND until <= ?

-- :forget
DELETE FROM millrace_step WHERE seq = ?

-- :unmark
UPDATE millrace_job SET stepped = NULL WHERE seq = ?
