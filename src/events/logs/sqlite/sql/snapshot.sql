-- :newest
SELECT stream, name, schema, version, state FROM millrace_event_snapshot WHERE stream = ? AND name = ?

-- :keep  unless the one that is there is newer
INSERT INTO millrace_event_snapshot (stream, name, schema, version, state) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (stream, name) DO UPDATE SET schema = excluded.schema, version = excluded.version, state = excluded.state
WHERE version <= excluded.version
