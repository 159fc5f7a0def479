-- exchange: settles plain jobs that ended, and claims what is next. One statement, one commit, one row back.
--
-- In. Lists of texts as in insert.sql; lists of numbers are flat, a fixed number of elements for each entry. `of` is the
-- position of an entry's claim in `tokens`, from 1. A range is a first and a last position, both inclusive, all of whose
-- jobs have that outcome.
--   now        epoch ms; null: the server's clock
--   worker
--   tokens     of the claims that settled jobs came from, ascending; null when nothing is settled
--   ended      the kinds of these jobs
--   settled    entries ascending by of and first:      of, first, last, outcome, ms
--              outcome 5: completed, kept for that long, 0 forgets it at once; 3: to be tried again after that long
--   results    JSON texts of the jobs of each entry that completed: one list per entry, in that order, separated by U+001D;
--              empty for an entry without any; null when there are none
--   rests      of all jobs that are tried again, in that order
--   claim      token of the claim; null: no claim
--   lease      ms
--   room       jobs that any lane may have, then for each lane what it alone may have
--   picks      in order:                               queue, lane, take, hint
--              hint: where to begin to look, 0 for the start; taken for a guess: if too little comes, all is looked at
--              each queue and lane at most once
--   odd        may hand out `special` jobs
-- Out.
--   at         the time that it used: when the claimed jobs started
--   lost       'of:seq,…' of the settled jobs that were not the worker's any more; null when there are none
--   seqs       positions of the claimed jobs, by commas; null when there are none
--   kinds, created, limits    for each job, by commas, or one for all; limits: 'max_attempts:max_crashes'
--   ids, inputs               n parts each
--   extras     JSON: [[index, overrides, tags, metadata, rest], ...] of those that have any; null when none has
-- Errors. MR001: something here is not plain; nothing was done, and the desk has to do the whole of it. So do 55P03 and
-- 40P01, when somebody else holds what is settled, and 54000, when the claimed jobs are too large for one text.
CREATE OR REPLACE FUNCTION {schema}.exchange_{set}(
  now bigint, worker text,
  tokens text[], ended int[], settled bigint[], results text, rests text,
  claim text, lease bigint, room int[], picks bigint[], odd boolean,
  OUT at bigint, OUT lost text, OUT seqs text, OUT kinds text, OUT created text, OUT limits text,
  OUT ids text, OUT inputs text, OUT extras text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
SET lock_timeout = '250ms'
AS $$
DECLARE
  sep CONSTANT text := chr(30);
  -- Of a child, only what a client has to know of its earlier runs.
  told CONSTANT text := '"(attempt|crashes|readyAt|retryDelay)":';
  held bigint[];  -- spans of what is claimed
  again boolean := false;
  began bigint;
  n int; special boolean; more int; kind int; kind_to int; born bigint; born_to bigint;
  attempts int; attempts_to int; crashes int; crashes_to int;
  places bigint[];
BEGIN
  -- Whoever gives a queue limits counts what runs, and must not miss what is started or ended at this moment.
  PERFORM pg_advisory_xact_lock_shared({barrier});
  at := coalesce(now, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint);

  IF ended IS NOT NULL AND EXISTS (
    SELECT 1 FROM {schema}.kind k JOIN {schema}.queue q ON q.num = k.queue WHERE k.num = ANY (ended) AND q.traffic
  ) THEN
    RAISE SQLSTATE 'MR001' USING MESSAGE = 'queue with limits';
  END IF;

  IF claim IS NOT NULL THEN
    -- Asked again: what it has taken and still holds, if anything.
    SELECT l.spans, l.at INTO held, began FROM {schema}.lease l WHERE l.token = claim AND l.worker = exchange_{set}.worker;
    again := FOUND OR coalesce(claim = (
      SELECT w.latest FROM {schema}.worker w WHERE w.id = worker ORDER BY w.num DESC LIMIT 1), false);
    IF NOT again THEN
      -- Before anything is settled: this may wait for a run that others hold, and who waits must hold nothing.
      held := {schema}.take_{set}(room, picks);
    END IF;
  END IF;

  IF tokens IS NOT NULL THEN
    lost := {schema}.settle_{set}(at, worker, tokens, ended, settled, results, rests);
  END IF;

  IF held IS NULL THEN RETURN; END IF;
  at := coalesce(began, at);

  SELECT count(*), bool_or(j.special), count(coalesce(j.overrides, j.tags, j.metadata, CASE WHEN j.child_of IS NULL OR j.rest ~ told THEN j.rest END)),
    min(j.kind), max(j.kind), min(j.created_at), max(j.created_at),
    min(j.max_attempts), max(j.max_attempts), min(j.max_crashes), max(j.max_crashes),
    array_agg(j.seq), string_agg(j.id, sep), string_agg(j.input, sep)
  INTO n, special, more, kind, kind_to, born, born_to, attempts, attempts_to, crashes, crashes_to, places, ids, inputs
  FROM generate_series(1, cardinality(held), 2) s (i)
  CROSS JOIN LATERAL (
    SELECT * FROM {schema}.job k WHERE k.seq BETWEEN held[s.i] AND held[s.i + 1] AND k.state = 0 ORDER BY k.seq
  ) j;
  IF special AND NOT odd THEN RAISE SQLSTATE 'MR001' USING MESSAGE = 'special job'; END IF;
  -- A client cannot hold a text of half a gigabyte.
  IF octet_length(inputs) > 100000000 THEN RAISE program_limit_exceeded USING MESSAGE = 'jobs too large'; END IF;
  IF n = 0 THEN RETURN; END IF;
  seqs := array_to_string(places, ',');
  kinds := kind;
  created := born;
  limits := attempts || ':' || crashes;
  IF kind <> kind_to OR born <> born_to OR attempts <> attempts_to OR crashes <> crashes_to THEN
    SELECT string_agg(j.kind::text, ','), string_agg(j.created_at::text, ','),
      string_agg(j.max_attempts || ':' || j.max_crashes, ',')
    INTO kinds, created, limits
    FROM unnest(places) WITH ORDINALITY s (seq, nth) JOIN {schema}.job j ON j.seq = s.seq;
  END IF;
  IF more > 0 THEN
    SELECT json_agg(json_build_array(s.nth - 1, j.overrides, j.tags, j.metadata, CASE WHEN j.child_of IS NULL OR j.rest ~ told THEN j.rest END))::text INTO extras
    FROM unnest(places) WITH ORDINALITY s (seq, nth) JOIN {schema}.job j ON j.seq = s.seq
    WHERE coalesce(j.overrides, j.tags, j.metadata, CASE WHEN j.child_of IS NULL OR j.rest ~ told THEN j.rest END) IS NOT NULL;
  END IF;

  IF again THEN RETURN; END IF;
  IF kind = kind_to THEN
    INSERT INTO {schema}.tally (kind, pending, running) VALUES (kind, -n, n);
  ELSE
    INSERT INTO {schema}.tally (kind, pending, running)
    SELECT j.kind, -count(*), count(*) FROM unnest(places) s (seq) JOIN {schema}.job j ON j.seq = s.seq GROUP BY j.kind;
  END IF;
  INSERT INTO {schema}.lease (token, worker, at, undone, spans) VALUES (claim, worker, at, n,
    CASE WHEN cardinality(held) = 2 THEN held
      ELSE (SELECT array_agg(u.bound ORDER BY u.bound) FROM unnest(held) u (bound)) END);
  INSERT INTO {schema}.worker (id, expires_at, latest) VALUES (worker, at + lease, claim);
END
$$;
