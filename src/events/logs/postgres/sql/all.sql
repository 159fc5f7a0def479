-- :page  ($1 after, $2 limit, $3 decided, $4 types or NULL, $5 part, $6 of) -> of the next positions those that are wanted;
-- in each row, and in one that has nothing else when there are none: how many were looked at, the last of them, and the last
-- one before the first gap above what is decided, if there is one. Nothing beyond that gap comes.
WITH looked AS MATERIALIZED (
  SELECT e.*, lag(e.position, 1, $1::bigint) OVER (ORDER BY e.position) AS before
  FROM (
    SELECT position, id, stream, version, at, type, schema, data, meta,
      ($4::text[] IS NULL OR type = ANY ($4)) AND ($6::int = 1 OR slot % $6 = $5::int) AS wanted
    FROM {schema}.event WHERE position > $1 ORDER BY position LIMIT $2
  ) e
), edge AS MATERIALIZED (
  SELECT count(*)::int AS looked, max(position) AS last,
    min(before) FILTER (WHERE position > greatest(before, $3::bigint) + 1) AS stop
  FROM looked
)
SELECT edge.looked, edge.last, edge.stop, e.position, e.id, e.stream, e.version, e.at, e.type, e.schema, e.data, e.meta
FROM edge LEFT JOIN looked e ON e.wanted AND (edge.stop IS NULL OR e.position <= edge.stop)
ORDER BY e.position

-- :writers
SELECT head, ids FROM {schema}.writers_{set}()

-- :seen  the furthest that any projection has come, which nobody goes without knowing that it is decided
SELECT coalesce(max(position), 0) AS position FROM {schema}.checkpoint
