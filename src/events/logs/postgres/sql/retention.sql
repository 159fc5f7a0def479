-- :look  ($1 stream, $2 version, $3 end, $4 offset) -> the last one of the next events of a category, if there are so many
SELECT stream, version FROM {schema}.event
WHERE (stream, version) > ($1, $2) AND stream < $3 ORDER BY stream, version LIMIT 1 OFFSET $4

-- :surplus  ($1, $2 after, $3, $4 up to, $5 end, $6 begin, $7 category, $8 age, $9 through, $10 superseded, $11 limit, $12 now)
SELECT position, id, stream, version, at, type, schema, data, meta FROM {schema}.event e
WHERE (stream, version) > ($1, $2) AND (stream, version) <= ($3, $4) AND stream < $5
  AND (stream >= $6 OR stream = $7) AND at < {schema}.clock_{set}($12) - $8::bigint AND position <= $9
  AND CASE WHEN $10::boolean
    THEN EXISTS (SELECT FROM {schema}.event n WHERE n.stream = e.stream AND n.version > e.version)
    -- What came after the newest snapshot is needed to load the stream.
    ELSE e.version <= coalesce((SELECT min(s.version) FROM {schema}.snapshot s WHERE s.stream = e.stream), e.version) END
ORDER BY stream, version LIMIT $11

-- :remove
DELETE FROM {schema}.event WHERE position = ANY ($1::bigint[])

-- :lock  against whoever keeps a snapshot of it
SELECT FROM {schema}.stream WHERE id = $1 FOR UPDATE

-- :erase  ($1 stream, $2 limit) -> how many
DELETE FROM {schema}.event WHERE position = ANY (ARRAY(
  SELECT position FROM {schema}.event WHERE stream = $1 ORDER BY version LIMIT $2))

-- :forgetSnapshots
DELETE FROM {schema}.snapshot WHERE stream = $1

-- :isLeft
SELECT FROM {schema}.event WHERE stream = $1 LIMIT 1
