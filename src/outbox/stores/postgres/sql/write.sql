-- :rows
-- $1: rows as JSON, in their order. Gives the id of the transaction.
WITH given AS MATERIALIZED (
  SELECT * FROM ROWS FROM (json_to_recordset($1::text::json)
    AS (slot smallint, id text, key text, topic text, body text, headers text)) WITH ORDINALITY
), written AS (
  INSERT INTO {schema}.waiting (slot, id, key, topic, body, headers)
  SELECT slot, id, key, topic, body, headers FROM given ORDER BY ordinality
)
SELECT pg_current_xact_id()::text AS xid
