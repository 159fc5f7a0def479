-- What became of workers' older rows: the sweep runs this now and then. Rows that others delete are left to them.
DELETE FROM {schema}.worker w WHERE w.ctid = ANY (ARRAY(
  SELECT o.ctid FROM {schema}.worker o
  WHERE EXISTS (SELECT 1 FROM {schema}.worker n WHERE n.id = o.id AND n.num > o.num)
  LIMIT 10000 FOR UPDATE SKIP LOCKED))
