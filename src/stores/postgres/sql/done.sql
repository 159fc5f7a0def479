-- cut_done(seqs): takes jobs out of the runs of completed ones; their rows stay. What is left of a run keeps its results.
CREATE OR REPLACE FUNCTION {schema}.cut_done_{set}(seqs bigint[]) RETURNS void
LANGUAGE plpgsql
{steady}
AS $$
DECLARE
  sep CONSTANT text := chr(30);
  run record;
  cut bigint;
  start bigint;
BEGIN
  FOR run IN
    SELECT d.* FROM {schema}.done d
    WHERE d.last = ANY (ARRAY(
      SELECT (SELECT n.last FROM {schema}.done n WHERE n.last >= u.seq ORDER BY n.last LIMIT 1) FROM unnest(seqs) u (seq)
    )) AND EXISTS (SELECT 1 FROM unnest(seqs) u (seq) WHERE u.seq BETWEEN d.first AND d.last)
    ORDER BY d.last FOR UPDATE
  LOOP
    DELETE FROM {schema}.done d WHERE d.last = run.last;
    start := run.first;
    FOR cut IN
      SELECT u.seq FROM unnest(seqs) u (seq) WHERE u.seq BETWEEN run.first AND run.last
      UNION ALL SELECT run.last + 1 ORDER BY 1
    LOOP
      IF cut > start THEN
        INSERT INTO {schema}.done (last, first, started_at, finished_at, expires_at, kind, kinds, results)
        VALUES (cut - 1, start, run.started_at, run.finished_at, run.expires_at, run.kind, run.kinds, CASE WHEN run.results IS NOT NULL THEN
          array_to_string((string_to_array(run.results, sep))[start - run.first + 1 : cut - run.first], sep) END);
      END IF;
      start := cut + 1;
    END LOOP;
  END LOOP;
END
$$;
