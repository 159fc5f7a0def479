-- :sent
-- $1: milliseconds for which they are kept, $2: the most that go
DELETE FROM {schema}.sent WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM {schema}.sent WHERE sent_at < clock_timestamp() - $1 * interval '1 ms' ORDER BY sent_at LIMIT $2))

-- :aside
-- $1, $2: the same
DELETE FROM {schema}.aside WHERE position = ANY(ARRAY(
  SELECT position FROM {schema}.aside WHERE aside_at < clock_timestamp() - $1 * interval '1 ms' ORDER BY position LIMIT $2))

-- :received
-- $1, $2: the same, $3: whose
DELETE FROM {schema}.received WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM {schema}.received
  WHERE consumer = $3 AND at < clock_timestamp() - $1 * interval '1 ms' ORDER BY at LIMIT $2))
