-- :take
-- $1: the first slot, $2: how many there are, $3: which to begin with, $4: how many rows, $5: whether to keep them
SELECT * FROM {schema}.claim($1, $2, $3, $4, $5)

-- :settle
-- $1: what is not simply done, as JSON. `back`: stays, with `delay` its line waits; `free`: its line waits no more.
WITH given AS MATERIALIZED (
  SELECT *, coalesce('k' || key, seq::text) AS line FROM json_to_recordset($1::json) AS (
    "do" text, slot smallint, seq bigint, id text, key text, topic text, body text, headers text, at float8,
    attempts int, delay float8, failure text)
), back AS (
  INSERT INTO {schema}.waiting (slot, seq, id, key, topic, body, headers, at)
  SELECT slot, seq, id, key, topic, body, headers, to_timestamp(at / 1000) FROM given WHERE "do" = 'back'
), held AS (
  INSERT INTO {schema}.hold (slot, line, attempts, until, failure)
  SELECT slot, line, attempts, clock_timestamp() + delay * interval '1 ms', failure FROM given WHERE delay IS NOT NULL
  ON CONFLICT (slot, line) DO UPDATE
  SET attempts = excluded.attempts, until = excluded.until, failure = excluded.failure
), free AS (
  DELETE FROM {schema}.hold h USING given g WHERE g."do" = 'free' AND h.slot = g.slot AND h.line = g.line
), put AS (
  INSERT INTO {schema}.aside (slot, id, key, topic, body, headers, at, attempts, failure)
  SELECT slot, id, key, topic, body, headers, to_timestamp(at / 1000), attempts, failure
  FROM given WHERE "do" = 'set aside' ORDER BY slot, seq
)
-- Only what this transaction has put there can be among them.
DELETE FROM {schema}.sent s USING given g
WHERE s.sent_at >= now() AND g."do" IN ('back', 'set aside') AND s.slot = g.slot AND s.seq = g.seq
