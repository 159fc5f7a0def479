-- :forwards  ($1 stream, $2 after, $3 limit) -> its version, with each event and also when there are none
SELECT s.version AS newest, e.* FROM (SELECT coalesce((SELECT version FROM {schema}.stream WHERE id = $1), 0) AS version) s
LEFT JOIN LATERAL (
  SELECT position, id, stream, version, at, type, schema, data, meta FROM {schema}.event
  WHERE stream = $1 AND version > $2 ORDER BY version LIMIT $3
) e ON true

-- :backwards
SELECT s.version AS newest, e.* FROM (SELECT coalesce((SELECT version FROM {schema}.stream WHERE id = $1), 0) AS version) s
LEFT JOIN LATERAL (
  SELECT position, id, stream, version, at, type, schema, data, meta FROM {schema}.event
  WHERE stream = $1 AND version < $2 ORDER BY version DESC LIMIT $3
) e ON true
