-- :find
SELECT * FROM millrace_schedule WHERE name = ?

-- :write  the last slot and job are those of an advance
INSERT INTO millrace_schedule (name, rule, spec, revision, paused, fresh, slot, due_at, since, ahead, fired, created_at, changed_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET rule = excluded.rule, spec = excluded.spec, revision = excluded.revision,
  paused = excluded.paused, fresh = excluded.fresh, slot = excluded.slot, due_at = excluded.due_at,
  since = excluded.since, ahead = excluded.ahead, fired = excluded.fired, changed_at = excluded.changed_at

-- :advance
UPDATE millrace_schedule SET fresh = 0, slot = ?, due_at = ?, since = ?, ahead = ?, fired = ?, last_slot = ?, last_job = ? WHERE name = ?

-- :remove
DELETE FROM millrace_schedule WHERE name = ?

-- :due
SELECT * FROM millrace_schedule WHERE due_at <= ? ORDER BY due_at LIMIT ?

-- :stranded  the clock was set back far behind them, and they are not due
SELECT * FROM millrace_schedule WHERE paused = 0 AND since > ? AND (due_at IS NULL OR due_at > ?) ORDER BY since LIMIT ?

-- :next  when the first that is not due yet will be
SELECT min(due_at) FROM millrace_schedule WHERE due_at > ?

-- :page
SELECT * FROM millrace_schedule WHERE name > ? ORDER BY name LIMIT ?

-- :named
SELECT * FROM millrace_schedule WHERE name IN (SELECT value FROM json_each(?)) AND name > ? ORDER BY name LIMIT ?
