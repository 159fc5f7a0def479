-- :lead
-- $1: the first slot. One at a time follows, as long as its connection lives.
SELECT pg_try_advisory_lock({locks} - 1 - $1) AS taken

-- :lease
-- $1: milliseconds. The server ends this connection, and gives its locks away, when nothing is heard of it for so long, be it
-- frozen or cut off. Before PostgreSQL 14 it does that in transactions only.
SELECT set_config(name, $1, false) FROM pg_catalog.pg_settings
WHERE name IN ('idle_session_timeout', 'idle_in_transaction_session_timeout')

-- :renew
SELECT

-- :lock
-- $1: the first slot, $2: how many. Waits for relays that poll, and keeps them away from then on.
SELECT pg_advisory_lock({locks} + slot) FROM generate_series($1::bigint, $1::bigint + $2 - 1) slot

-- :now
SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS now, pg_current_snapshot()::text AS snapshot

-- :seen
SELECT pg_current_snapshot()::text AS snapshot

-- :prepared
-- $1: the publication. False when there is none, null when there is and it has not our table.
SELECT current_setting('wal_level') AS level,
  CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_publication p
    JOIN pg_catalog.pg_publication_rel r ON r.prpubid = p.oid
    WHERE p.pubname = $1 AND r.prrelid = '{schema}.waiting'::regclass) THEN true
  WHEN EXISTS (SELECT FROM pg_catalog.pg_publication WHERE pubname = $1) THEN NULL ELSE false END AS published

-- :publish
CREATE PUBLICATION "{publication}" FOR TABLE {schema}.waiting WITH (publish = 'insert')

-- :publishAgain
ALTER PUBLICATION "{publication}" SET TABLE {schema}.waiting

-- :lag
-- $1: the replication slot. Bytes that the server keeps for it.
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::float8 AS lag
FROM pg_catalog.pg_replication_slots WHERE slot_name = $1

-- :leftover
-- $1: the first slot, $2: how many, $3: a time. Whether a row was written before.
SELECT EXISTS (SELECT FROM generate_series($1::int, $1::int + $2 - 1) s, LATERAL (
  SELECT FROM {schema}.waiting w WHERE w.slot = s AND w.at < to_timestamp($3::float8 / 1000)
  ORDER BY w.seq LIMIT 1) old) AS old

-- :remove
-- $1: slots, $2: the seq of a row in each, $3: whether they are kept
SELECT {schema}.remove($1, $2, $3)
