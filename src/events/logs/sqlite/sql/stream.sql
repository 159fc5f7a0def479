-- :version
SELECT version FROM millrace_event_stream WHERE id = ?

-- :forwards
SELECT position, id, stream, version, at, type, schema, data, meta FROM millrace_event
WHERE stream = ? AND version > ? ORDER BY version LIMIT ?

-- :backwards
SELECT position, id, stream, version, at, type, schema, data, meta FROM millrace_event
WHERE stream = ? AND version < ? ORDER BY version DESC LIMIT ?
