-- hand_over: adds plain jobs, all of one kind, as a worker's own: it waits for some, and there are no others that it could
-- have. What goes in as for insert_jobs and exchange; `lines` are the queues and lanes that it asks for, in turn.
-- Errors. 23505: an id exists. MR001: there may be others, or the queue is not open to all; nothing was done.
CREATE OR REPLACE FUNCTION {schema}.hand_over_{set}(
  now bigint, kind int, limits int[], ids text, inputs text, worker text, claim text, lease bigint, lines int[],
  OUT at bigint, OUT first bigint)
LANGUAGE plpgsql
{steady}
AS $$
DECLARE
  id_list text[] := string_to_array(ids, chr(30));
  n int := cardinality(id_list);
BEGIN
  at := coalesce(now, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint);
  IF EXISTS (
    SELECT 1 FROM generate_series(1, cardinality(lines), 2) l (i) JOIN {schema}.queue q ON q.num = lines[l.i]
    WHERE NOT q.paused AND EXISTS (SELECT 1 FROM {schema}.ready r WHERE r.queue = lines[l.i] AND r.lane = lines[l.i + 1])
  ) THEN
    RAISE SQLSTATE 'MR001' USING MESSAGE = 'others first';
  END IF;
  first := nextval('{schema}.position'::regclass);
  INSERT INTO {schema}.job (seq, created_at, kind, max_attempts, max_crashes, state, special, id, input)
  SELECT first + u.i, at, hand_over_{set}.kind, limits[1], limits[2], 0, false, u.id, u.input
  FROM (
    SELECT generate_series(0, n - 1) AS i, unnest(id_list) AS id, unnest(string_to_array(inputs, chr(30))) AS input
  ) u;
  -- See exchange. Not before: the insert waits for a caller who is adding the same id.
  PERFORM pg_advisory_xact_lock_shared({barrier});
  IF EXISTS (
    SELECT 1 FROM {schema}.kind k JOIN {schema}.queue q ON q.num = k.queue
    WHERE k.num = hand_over_{set}.kind AND (q.paused OR q.traffic)
  ) OR EXISTS (
    SELECT 1 FROM generate_series(1, cardinality(lines), 2) l (i) JOIN {schema}.queue q ON q.num = lines[l.i]
    WHERE q.traffic AND NOT q.paused
  ) THEN
    RAISE SQLSTATE 'MR001' USING MESSAGE = 'queue not open to all';
  END IF;
  INSERT INTO {schema}.lease (token, worker, at, undone, spans) VALUES (claim, worker, at, n, ARRAY[first, first + n - 1]);
  INSERT INTO {schema}.worker (id, expires_at, latest) VALUES (worker, at + lease, claim);
  INSERT INTO {schema}.tally (kind, running, total_enqueued) VALUES (hand_over_{set}.kind, n, n);
END
$$;
