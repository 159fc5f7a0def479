-- :newest
SELECT stream, name, schema, version, state FROM millrace_event_snapshot WHERE stream = ? AND name = ?

-- :keep  unless the one that is there is newer, or its last event has been erased
INSERT INTO millrace_event_snapshot (stream, name, schema, version, state)
SELECT @stream, @name, @schema, @version, @state
WHERE EXISTS (SELECT 1 FROM millrace_event WHERE stream = @stream AND version = @version)
ON CONFLICT (stream, name) DO UPDATE SET schema = excluded.schema, version = excluded.version, state = excluded.state
WHERE (schema, version) <= (excluded.schema, excluded.version)
