-- :newest
SELECT stream, name, schema, version, state FROM {schema}.snapshot WHERE stream = $1 AND name = $2

-- :keep  unless the one that is there is newer
INSERT INTO {schema}.snapshot AS s (stream, name, schema, version, state) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (stream, name) DO UPDATE SET schema = excluded.schema, version = excluded.version, state = excluded.state
WHERE s.version <= excluded.version
