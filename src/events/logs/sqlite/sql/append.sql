-- :version
SELECT version FROM millrace_event_stream WHERE id = ?

-- :known  whose id it is
SELECT stream, version FROM millrace_event WHERE id = ?

-- :landed  the last event of an append that has been there before
SELECT version, position, at FROM millrace_event WHERE stream = ? AND version BETWEEN ? AND ? ORDER BY version DESC LIMIT 1

-- :move
INSERT INTO millrace_event_stream (id, version) VALUES (?, ?)
ON CONFLICT (id) DO UPDATE SET version = excluded.version

-- :add
INSERT INTO millrace_event (id, stream, version, slot, at, type, schema, data, meta) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
