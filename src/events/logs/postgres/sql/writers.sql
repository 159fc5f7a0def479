-- writers() -> head, ids: the highest position that can be read, and then the transactions that may have given out
-- positions below it and are not over: those that hold the lock {writers}. Each takes it before its first position and keeps
-- it until after its commit can be seen. So once all of these are gone, whatever is missing up to the head is missing for
-- ever. They are known by their transaction ids, which stay the same when one is prepared and when the server starts again.
-- ids: NULL when one of them is just ending or being prepared, so that its id cannot be told; then nothing can be said.
-- Not a single statement: what it looks at second has to be looked at second.
CREATE OR REPLACE FUNCTION {schema}.writers_{set}(OUT head bigint, OUT ids text)
LANGUAGE plpgsql
{steady}
AS $$
BEGIN
  SELECT coalesce(max(e.position), 0) INTO head FROM {schema}.event e;
  WITH locks AS MATERIALIZED (
    SELECT l.locktype, l.database, l.classid, l.objid, l.objsubid, l.virtualtransaction, l.transactionid, l.mode, l.granted
    FROM pg_locks l
  )
  SELECT CASE WHEN bool_or(x.transactionid IS NULL) THEN NULL ELSE coalesce(string_agg(x.transactionid::text, ','), '') END
  INTO ids
  FROM locks w
  LEFT JOIN locks x ON x.locktype = 'transactionid' AND x.mode = 'ExclusiveLock' AND x.granted
    AND x.virtualtransaction = w.virtualtransaction
  WHERE w.locktype = 'advisory' AND w.granted AND w.objsubid = 1
    AND (w.classid::bigint << 32 | w.objid::bigint) = {writers}
    AND w.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
END
$$;
