-- prune(now, most, keep) -> int: deletes up to `most` jobs in `done`: those that have expired and, when there are far more
-- completed ones than are to be kept, the ones closest to their expiry. Returns how many. The few others that are too many
-- are left to the desk, which knows which of them are needed, and so are those that come after one that ended at the desk.
CREATE OR REPLACE FUNCTION {schema}.prune_{set}(now bigint, most int, keep bigint) RETURNS int
LANGUAGE plpgsql
{steady}
{nested}
AS $$
DECLARE
  sep CONSTANT text := chr(30);
  at bigint := coalesce(now, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint);
  excess bigint;
  others float8;  -- when the first of those expires that ended at the desk
  runs refcursor; run record; size bigint;
  firsts bigint[] := '{}'; lasts bigint[] := '{}'; untils bigint[] := '{}'; whole bigint[] := '{}';
  pruned int := 0;
  gone_marks json;  -- of those that have any
BEGIN
  SELECT sum(t.completed) - keep INTO excess
  FROM (SELECT completed FROM {schema}.tallied UNION ALL SELECT completed FROM {schema}.tally) t;
  IF coalesce(excess, 0) <= most THEN excess := 0;
  ELSE SELECT j.rank INTO others FROM {schema}.job j WHERE j.state = 5 ORDER BY j.rank, j.seq LIMIT 1;
  END IF;

  OPEN runs FOR SELECT d.first, d.last, d.expires_at, d.results FROM {schema}.done d
    ORDER BY d.expires_at, d.last FOR UPDATE SKIP LOCKED;
  WHILE pruned < most LOOP
    FETCH runs INTO run;
    EXIT WHEN NOT FOUND OR run.expires_at > at AND (pruned >= excess OR run.expires_at > others);
    size := least(run.last - run.first + 1, most - pruned);
    firsts := firsts || run.first;
    lasts := lasts || (run.first + size - 1);
    untils := untils || run.expires_at;
    pruned := pruned + size;
    IF run.first + size > run.last THEN
      whole := whole || run.last;
    ELSE
      UPDATE {schema}.done d SET first = run.first + size,
        results = array_to_string((string_to_array(run.results, sep))[size + 1 :], sep)
      WHERE d.last = run.last;
    END IF;
  END LOOP;
  CLOSE runs;
  IF pruned = 0 THEN RETURN 0; END IF;
  DELETE FROM {schema}.done d WHERE d.last = ANY (whole);
  WITH gone AS (
    DELETE FROM {schema}.job j USING unnest(firsts, lasts, untils) d (first, last, until)
    WHERE j.seq BETWEEN d.first AND d.last AND j.state = 0 RETURNING j.kind,
      CASE WHEN coalesce(j.tags, j.search) IS NOT NULL THEN json_build_array(j.seq, j.tags, j.search, d.until) END AS marks
  ), counts AS (
    SELECT g.kind, count(*)::int AS n FROM gone g GROUP BY g.kind
  ), counted AS (
    INSERT INTO {schema}.tally (kind, completed, total_pruned) SELECT c.kind, -c.n, c.n FROM counts c
  )
  SELECT (SELECT coalesce(sum(c.n), 0) FROM counts c), json_agg(g.marks) FILTER (WHERE g.marks IS NOT NULL)
  INTO pruned, gone_marks FROM gone g;
  IF gone_marks IS NOT NULL THEN PERFORM {schema}.unmark_{set}(5, gone_marks); END IF;
  RETURN pruned;
END
$$;
