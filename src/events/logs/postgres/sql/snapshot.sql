-- :newest
SELECT stream, name, schema, version, state FROM {schema}.snapshot WHERE stream = $1 AND name = $2

-- :hold  keeps the stream from being erased until the transaction is over
SELECT FROM {schema}.stream WHERE id = $1 FOR KEY SHARE

-- :keep  unless the one that is there is newer, or its last event has been erased
INSERT INTO {schema}.snapshot AS s (stream, name, schema, version, state)
SELECT $1, $2, $3, $4, $5 WHERE EXISTS (SELECT FROM {schema}.event WHERE stream = $1 AND version = $4)
ON CONFLICT (stream, name) DO UPDATE SET schema = excluded.schema, version = excluded.version, state = excluded.state
WHERE (s.schema, s.version) <= (excluded.schema, excluded.version)
