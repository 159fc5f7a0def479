-- :figures
-- $1: slots of each kind, $2: the most that are counted. A hold that was over a minute ago is one of a row that has gone.
SELECT jobs.waiting AS jobs, messages.waiting AS messages, jobs.oldest AS "oldestJob", messages.oldest AS "oldestMessage",
  (SELECT count(*) FROM (SELECT FROM {schema}.hold WHERE slot < $1 AND until > clock_timestamp() - interval '1 minute'
    LIMIT $2) one) AS "heldJobs",
  (SELECT count(*) FROM (SELECT FROM {schema}.hold WHERE slot >= $1 AND until > clock_timestamp() - interval '1 minute'
    LIMIT $2) one) AS "heldMessages",
  (SELECT count(*) FROM (SELECT FROM {schema}.aside LIMIT $2) one) AS aside
FROM LATERAL (
  SELECT (SELECT count(*) FROM (SELECT FROM {schema}.waiting WHERE slot < $1 LIMIT $2) one) AS waiting,
    coalesce(max((SELECT extract(epoch FROM clock_timestamp() - w.at)::float8 * 1000
      FROM {schema}.waiting w WHERE w.slot = s ORDER BY w.seq LIMIT 1)), 0) AS oldest
  FROM generate_series(0, $1 - 1) s
) jobs, LATERAL (
  SELECT (SELECT count(*) FROM (SELECT FROM {schema}.waiting WHERE slot >= $1 LIMIT $2) one) AS waiting,
    coalesce(max((SELECT extract(epoch FROM clock_timestamp() - w.at)::float8 * 1000
      FROM {schema}.waiting w WHERE w.slot = s ORDER BY w.seq LIMIT 1)), 0) AS oldest
  FROM generate_series($1, 2 * $1 - 1) s
) messages

-- :aside
-- $1: a position, $2: how many above it
SELECT position, id, slot, key, topic, body, headers, extract(epoch FROM at)::float8 * 1000 AS at,
  extract(epoch FROM aside_at)::float8 * 1000 AS "asideAt", attempts, failure
FROM {schema}.aside WHERE position > $1 ORDER BY position LIMIT $2

-- :retry
-- $1: ids. Back to the end of their lines, in the order in which they were set aside.
WITH gone AS (
  DELETE FROM {schema}.aside WHERE id = ANY($1::text[])
  RETURNING position, slot, id, key, topic, body, headers, at
), back AS (
  INSERT INTO {schema}.waiting (slot, id, key, topic, body, headers, at)
  SELECT slot, id, key, topic, body, headers, at FROM gone ORDER BY position
)
SELECT id FROM gone ORDER BY position

-- :discard
-- $1: ids
DELETE FROM {schema}.aside WHERE id = ANY($1::text[]) RETURNING id
