-- insert_jobs: adds plain jobs, ready or delayed. One statement, one row back.
--
-- In. Lists of texts are one text each, its parts separated by U+001E, which no JSON text and no id contains; an empty part
-- is null. A list that no job needs is null. Jobs of one queue and lane should stand together.
--   now        epoch ms; null: the server's clock
--   kinds      number of each job's kind, or one for all
--   limits     max_attempts, max_crashes of each job, or one pair for all
--   ids, inputs            n parts each
--   delays     ms of each job; null or 0: ready
--   run_ats    epoch ms of each job, wins over its delay
--   overrides, tags, search, metadata    JSON texts
--   fresh      these ids are new, as far as the caller knows: a fifth faster; if one is not, 23505 and nothing is done.
--              Not inside a transaction of the user's, which that would end
--   child_of, rest         as in `job`, one for all: of jobs that are fresh, of one kind and ready; see joining.sql
-- Out.
--   at         the time that it used: jobs due later are scheduled
--   duplicates null, or 'index:state,…' of the jobs that were not added, index from 0, state as in job.state of the
--              job that stands, 2 when it runs
-- Errors. 23502: the lists differ in length. 23503: a kind is unknown. 55P03, 40P01: another call is adding the same ids;
-- try again. 23505: see fresh. MR001: a queue has limits; the desk has to do it.
CREATE OR REPLACE FUNCTION {schema}.insert_jobs_{set}(
  now bigint, kinds int[], limits int[], ids text, inputs text,
  delays float8[], run_ats float8[], overrides text, tags text, search text, metadata text, fresh boolean,
  child_of bigint DEFAULT NULL, rest text DEFAULT NULL,
  OUT at bigint, OUT duplicates text)
LANGUAGE plpgsql
{steady}
AS $$
DECLARE
  sep CONSTANT text := chr(30);
  id_list text[] := string_to_array(ids, sep);
  n int := cardinality(id_list);
  -- Of each block of 128, its first position.
  bases bigint[] := ARRAY(SELECT nextval('{schema}.position'::regclass) FROM generate_series(1, n, 128));
  simple boolean := cardinality(kinds) = 1 AND cardinality(limits) = 2
    AND coalesce(delays, run_ats) IS NULL AND coalesce(overrides, tags, search, metadata) IS NULL;
  added int;
BEGIN
  at := coalesce(now, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint);
  IF EXISTS (
    SELECT 1 FROM {schema}.kind k JOIN {schema}.queue q ON q.num = k.queue WHERE k.num = ANY (kinds) AND q.traffic
  ) THEN
    RAISE SQLSTATE 'MR001' USING MESSAGE = 'queue with limits';
  END IF;
  IF child_of IS NOT NULL AND NOT (simple AND fresh) THEN RAISE SQLSTATE 'MR001' USING MESSAGE = 'children'; END IF;
  IF simple AND fresh THEN
    -- An insert that may meet a conflict is logged twice.
    INSERT INTO {schema}.job (seq, created_at, kind, max_attempts, max_crashes, state, special, id, input, child_of, rest)
    SELECT bases[u.i / 128 + 1] + u.i % 128, at, kinds[1], limits[1], limits[2], 0, false, u.id, u.input,
      insert_jobs_{set}.child_of, insert_jobs_{set}.rest
    FROM (
      SELECT generate_series(0, n - 1) AS i, unnest(id_list) AS id, unnest(string_to_array(inputs, sep)) AS input
    ) u;
  ELSIF simple THEN
    INSERT INTO {schema}.job (seq, created_at, kind, max_attempts, max_crashes, state, special, id, input)
    SELECT bases[u.i / 128 + 1] + u.i % 128, at, kinds[1], limits[1], limits[2], 0, false, u.id, u.input
    FROM (
      SELECT generate_series(0, n - 1) AS i, unnest(id_list) AS id, unnest(string_to_array(inputs, sep)) AS input
    ) u
    ON CONFLICT (id) DO NOTHING;
  ELSE
    INSERT INTO {schema}.job (seq, created_at, kind, max_attempts, max_crashes, state, special, id, input, rank,
      overrides, tags, search, metadata)
    SELECT bases[u.i / 128 + 1] + u.i % 128, at,
      CASE WHEN cardinality(kinds) = 1 THEN kinds[1] ELSE kinds[u.i + 1] END,
      CASE WHEN cardinality(limits) = 2 THEN limits[1] ELSE limits[2 * u.i + 1] END,
      CASE WHEN cardinality(limits) = 2 THEN limits[2] ELSE limits[2 * u.i + 2] END,
      CASE WHEN u.due > at THEN 1 ELSE 0 END, false, u.id, u.input, CASE WHEN u.due > at THEN u.due END,
      u.overrides, u.tags, u.search, u.metadata
    FROM (
      SELECT s.i, s.id, s.input, s.overrides, s.tags, s.search, s.metadata,
        coalesce(run_ats[s.i + 1], at + delays[s.i + 1]) AS due
      FROM (
        SELECT generate_series(0, n - 1) AS i, unnest(id_list) AS id, unnest(string_to_array(inputs, sep)) AS input,
          -- Empty arrays where there is none: the others go on beside them.
          unnest(string_to_array(insert_jobs_{set}.overrides, sep, '')) AS overrides,
          unnest(string_to_array(insert_jobs_{set}.tags, sep, '')) AS tags,
          unnest(string_to_array(insert_jobs_{set}.search, sep, '')) AS search,
          unnest(string_to_array(insert_jobs_{set}.metadata, sep, '')) AS metadata
      ) s
    ) u
    ON CONFLICT (id) DO NOTHING;
  END IF;
  GET DIAGNOSTICS added = ROW_COUNT;

  IF simple AND added = n THEN
    INSERT INTO {schema}.ready (queue, lane, last, first, kind, created_at)
    SELECT k.queue, k.lane, b.base + least(128, n - 128 * (b.nth - 1)) - 1, b.base, k.num, at
    FROM {schema}.kind k, unnest(bases) WITH ORDINALITY b (base, nth) WHERE k.num = kinds[1];
    IF NOT FOUND THEN RAISE foreign_key_violation USING MESSAGE = 'unknown kind'; END IF;
    INSERT INTO {schema}.tally (kind, pending, total_enqueued) VALUES (kinds[1], n, n);
    RETURN;
  END IF;

  INSERT INTO {schema}.ready (queue, lane, last, first, kind, created_at, kinds)
  SELECT r.queue, r.lane, max(r.seq), min(r.seq), CASE WHEN min(r.kind) = max(r.kind) THEN min(r.kind) ELSE 0 END, at,
    -- A list of them would be long for a few jobs, which are soon looked at.
    CASE WHEN min(r.kind) <> max(r.kind) AND count(*) >= 16 THEN array_agg(DISTINCT r.kind) END
  FROM (
    SELECT k.queue, k.lane, k.num AS kind, j.seq, b.base,
      j.seq - row_number() OVER (PARTITION BY b.base, k.queue, k.lane ORDER BY j.seq) AS run
    FROM unnest(bases) b (base)
    JOIN {schema}.job j ON j.seq BETWEEN b.base AND b.base + 127
    CROSS JOIN LATERAL (SELECT * FROM {schema}.kind i WHERE i.num = j.kind OFFSET 0) k
    WHERE j.state = 0
  ) r
  GROUP BY r.queue, r.lane, r.base, r.run;

  IF coalesce(tags, search) IS NOT NULL THEN
    INSERT INTO {schema}.mark (mark, state, rank, seq)
    SELECT e.mark, j.state, coalesce(j.rank, 0), j.seq
    FROM unnest(bases) b (base)
    JOIN {schema}.job j ON j.seq BETWEEN b.base AND b.base + 127
    CROSS JOIN LATERAL {schema}.marks_of_{set}(j.tags, j.search) e (mark)
    WHERE coalesce(j.tags, j.search) IS NOT NULL;
  END IF;

  INSERT INTO {schema}.tally (kind, pending, scheduled, total_enqueued)
  SELECT j.kind, nullif(count(*) FILTER (WHERE j.state = 0), 0), nullif(count(*) FILTER (WHERE j.state = 1), 0), count(*)
  FROM unnest(bases) b (base) JOIN {schema}.job j ON j.seq BETWEEN b.base AND b.base + 127
  GROUP BY j.kind;

  IF EXISTS (SELECT 1 FROM unnest(kinds) u (num) WHERE NOT EXISTS (SELECT 1 FROM {schema}.kind k WHERE k.num = u.num)) THEN
    RAISE foreign_key_violation USING MESSAGE = 'unknown kind';
  END IF;

  IF added <> n THEN
    SELECT string_agg(d.i || ':' || d.state, ',' ORDER BY d.i) INTO duplicates
    FROM (
      SELECT u.i, coalesce((
        SELECT CASE WHEN j.state <> 0 THEN j.state WHEN r.first <= j.seq THEN 0 WHEN o.first <= j.seq THEN 5 ELSE 2 END
        FROM {schema}.job j JOIN {schema}.kind k ON k.num = j.kind
        LEFT JOIN LATERAL (
          SELECT c.first FROM {schema}.ready c
          WHERE c.queue = k.queue AND c.lane = k.lane AND c.last >= j.seq ORDER BY c.last LIMIT 1
        ) r ON true
        LEFT JOIN LATERAL (SELECT c.first FROM {schema}.done c WHERE c.last >= j.seq ORDER BY c.last LIMIT 1) o ON true
        WHERE j.id = u.id
      ), 0) AS state
      FROM (SELECT generate_series(0, n - 1) AS i, unnest(id_list) AS id) u
      WHERE NOT EXISTS (SELECT 1 FROM {schema}.job j WHERE j.seq = bases[u.i / 128 + 1] + u.i % 128)
    ) d;
  END IF;
END
$$;

-- insert_within(payload) -> at, duplicates: the same in a transaction of a caller's, over any driver: all parameters as one JSON
-- text. `at` is null when a queue has limits, or when the caller's snapshot is too old to see a kind, and nothing was done: an
-- error would end the transaction.
CREATE OR REPLACE FUNCTION {schema}.insert_within_{set}(payload text, OUT at bigint, OUT duplicates text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  p json := payload::json;
  kinds int[] := ARRAY(SELECT e::int FROM json_array_elements_text(p->'kinds') e);
BEGIN
  IF EXISTS (
    SELECT 1 FROM unnest(kinds) u (num) LEFT JOIN {schema}.kind k ON k.num = u.num LEFT JOIN {schema}.queue q ON q.num = k.queue
    WHERE q.traffic IS NOT FALSE
  ) THEN
    RETURN;
  END IF;
  SELECT i.at, i.duplicates INTO at, duplicates FROM {schema}.insert_jobs_{set}(
    (p->>'now')::bigint, kinds, ARRAY(SELECT e::int FROM json_array_elements_text(p->'limits') e), p->>'ids', p->>'inputs',
    {schema}.floats_{set}(p->'delays'), {schema}.floats_{set}(p->'runAts'), p->>'overrides', p->>'tags', p->>'search', p->>'metadata', false) i;
END
$$;

CREATE OR REPLACE FUNCTION {schema}.floats_{set}(list json) RETURNS float8[]
LANGUAGE sql STABLE
AS $$
  SELECT CASE WHEN json_typeof(list) = 'array' THEN ARRAY(SELECT e::float8 FROM json_array_elements_text(list) e) END
$$;
