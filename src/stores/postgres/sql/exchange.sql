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
{steady}
{nested}
SET lock_timeout = '250ms'
AS $$
DECLARE
  held bigint[];  -- spans of what is claimed
  again boolean := false;
  began bigint;
  n int; kind int; kind_to int;
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
    again := EXISTS (SELECT 1 FROM {schema}.lease l WHERE l.token = claim AND l.worker = exchange_{set}.worker)
      OR coalesce(claim = (SELECT w.latest FROM {schema}.worker w WHERE w.id = worker ORDER BY w.num DESC LIMIT 1), false);
    IF NOT again THEN
      -- Before anything is settled: this may wait for a run that others hold, and who waits must hold nothing.
      held := {schema}.take_{set}(room, picks);
    END IF;
  END IF;

  IF tokens IS NOT NULL THEN
    lost := {schema}.settle_{set}(at, worker, tokens, ended, settled, results, rests);
  END IF;

  IF again THEN
    -- What it has taken and still holds, if anything.
    SELECT l.spans, l.at INTO held, began FROM {schema}.lease l WHERE l.token = claim AND l.worker = exchange_{set}.worker;
  END IF;
  IF held IS NULL THEN RETURN; END IF;
  at := coalesce(began, at);

  SELECT t.n, t.kind, t.kind_to, t.seqs, t.kinds, t.created, t.limits, t.ids, t.inputs, t.extras
  INTO n, kind, kind_to, seqs, kinds, created, limits, ids, inputs, extras FROM {schema}.tell_{set}(held, odd, NULL) t;
  IF n = 0 THEN RETURN; END IF;
  IF again THEN RETURN; END IF;
  IF kind = kind_to THEN
    INSERT INTO {schema}.tally (kind, pending, running) VALUES (kind, -n, n);
  ELSE
    INSERT INTO {schema}.tally (kind, pending, running)
    SELECT u.kind::int, -count(*), count(*) FROM unnest(string_to_array(kinds, ',')) u (kind) GROUP BY u.kind;
  END IF;
  INSERT INTO {schema}.lease (token, worker, at, undone, spans) VALUES (claim, worker, at, n,
    CASE WHEN cardinality(held) = 2 THEN held
      ELSE (SELECT array_agg(u.bound ORDER BY u.bound) FROM unnest(held) u (bound)) END);
  INSERT INTO {schema}.worker (id, expires_at, latest) VALUES (worker, at + lease, claim);
END
$$;
