-- settle(at, worker, tokens, kinds, settled, results, rests) -> lost: ends plain jobs. A part of exchange, whose settings it runs
-- under; what goes in and comes out as there.
CREATE OR REPLACE FUNCTION {schema}.settle_{set}(
  at bigint, worker text, tokens text[], kinds int[], settled bigint[], results text, rests text) RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
  sep CONSTANT text := chr(30);
  l record;
  i int := 1;         -- where in `settled`
  s int;              -- where in the spans of a lease
  k int;              -- where in `tokens` a lease is; says in all lists below whose job it is
  undone int[];
  -- What the leases cover: deleted, kept, put back; of which lease, and where.
  del_of int[]; del_first bigint[]; del_last bigint[];
  -- What they gave, where there is anything: from which position on, separated.
  given_first bigint[]; given text[];
  -- Children: their parents, ids and positions.
  parents bigint[]; children text[]; child_seqs bigint[];
  more_parents bigint[]; more_children text[]; more_child_seqs bigint[];
  keep_of int[]; keep_first bigint[]; keep_last bigint[];
  keep_at bigint[]; keep_until bigint[]; keep_results text[];
  groups text[] := string_to_array(results, chr(29), ''); grp int := 0; part text; begun bigint;
  back_of int[]; back_seq bigint[]; back_due float8[];
  first bigint; last bigint; upto bigint; ms bigint; outcome int; covered boolean;
  asked bigint := 0;  -- jobs to settle
  ended int[]; ended_of int[];
  seqs bigint[]; more bigint[]; of_seqs int[]; of_more int[];
  marked bigint[]; marked_until bigint[]; gone_marks json;  -- of those that have marks
  lost text;
  n int;
BEGIN
  FOR i IN 1 .. cardinality(settled) BY 5 LOOP
    asked := asked + settled[i + 2] - settled[i + 1] + 1;
    IF settled[i] < settled[i - 5] OR settled[i] = settled[i - 5] AND settled[i + 1] <= settled[i - 3] THEN
      RAISE invalid_parameter_value USING MESSAGE = 'settled: out of order';
    END IF;
  END LOOP;

  -- In order, so that two calls with the same claims do not wait for each other.
  FOR l IN
    SELECT t.token, t.at, t.undone, t.spans FROM {schema}.lease t
    WHERE t.token = ANY (tokens) AND t.worker = settle_{set}.worker ORDER BY t.token FOR UPDATE
  LOOP
    k := array_position(tokens, l.token);
    undone[k] := l.undone;
    -- Both in order: one walk along the ranges and the spans.
    s := 1;
    WHILE settled[i] <= k LOOP
      first := settled[i + 1];
      last := settled[i + 2];
      outcome := settled[i + 3];
      ms := settled[i + 4];
      covered := settled[i] = k;
      begun := first;
      IF outcome = 5 THEN grp := grp + 1; END IF;
      WHILE first <= last LOOP
        -- The next piece that is covered, or is not, as a whole.
        WHILE covered AND l.spans[s + 1] < first LOOP s := s + 2; END LOOP;
        IF NOT covered OR s > cardinality(l.spans) OR l.spans[s] > last THEN
          upto := last;
          n := NULL;
        ELSIF l.spans[s] > first THEN
          upto := l.spans[s] - 1;
          n := NULL;
        ELSE
          upto := least(last, l.spans[s + 1]);
          n := k;
        END IF;
        IF outcome = 5 AND n IS NOT NULL AND groups[grp] IS NOT NULL
          AND given_first[cardinality(given_first)] IS DISTINCT FROM begun THEN
          given_first := given_first || begun; given := given || groups[grp];
        END IF;
        IF outcome = 5 AND ms = 0 THEN
          IF n IS NOT NULL THEN
            del_of := del_of || k; del_first := del_first || first; del_last := del_last || upto;
          END IF;
        ELSIF outcome = 5 THEN
          IF n IS NOT NULL THEN
            part := groups[grp];
            IF part IS NOT NULL AND upto - first <> last - begun THEN
              part := array_to_string((string_to_array(part, sep))[first - begun + 1 : upto - begun + 1], sep);
            END IF;
            keep_of := keep_of || k; keep_first := keep_first || first; keep_last := keep_last || upto;
            keep_at := keep_at || l.at; keep_until := keep_until || (at + ms); keep_results := keep_results || part;
          END IF;
        ELSIF outcome = 3 THEN
          -- Also those that are lost: their texts go along.
          FOR j IN 0 .. upto - first LOOP
            back_of := back_of || n; back_seq := back_seq || (first + j); back_due := back_due || (at + ms)::float8;
          END LOOP;
        ELSE
          RAISE SQLSTATE 'MR001' USING MESSAGE = 'outcome';
        END IF;
        first := upto + 1;
      END LOOP;
      i := i + 5;
    END LOOP;
  END LOOP;
  -- Texts of claims after the last lease that was found belong to jobs that are lost, and are left over.

  IF del_of IS NOT NULL THEN
    WITH gone AS (
      DELETE FROM {schema}.job j USING unnest(del_of, del_first, del_last) d (k, first, last)
      WHERE j.seq BETWEEN d.first AND d.last AND j.state = 0 AND NOT j.special
      RETURNING j.seq, j.kind, d.k, j.child_of, j.id,
        CASE WHEN coalesce(j.tags, j.search) IS NOT NULL THEN json_build_array(j.seq, j.tags, j.search, 0) END AS marks
    ), counted AS (
      INSERT INTO {schema}.tally (kind, running, total_completed)
      SELECT g.kind, -count(*), count(*) FROM gone g GROUP BY g.kind
    )
    SELECT array_agg(g.seq), array_agg(g.k), array_agg(g.child_of) FILTER (WHERE g.child_of IS NOT NULL),
      array_agg(g.id) FILTER (WHERE g.child_of IS NOT NULL), array_agg(g.seq) FILTER (WHERE g.child_of IS NOT NULL),
      json_agg(g.marks) FILTER (WHERE g.marks IS NOT NULL)
    INTO seqs, of_seqs, parents, children, child_seqs, gone_marks FROM gone g;
    IF gone_marks IS NOT NULL THEN PERFORM {schema}.unmark_{set}(0, gone_marks); END IF;
  END IF;

  IF keep_of IS NOT NULL THEN
    -- Their rows are only read: the lease guards them.
    IF cardinality(kinds) = 1 THEN
      WITH ended AS MATERIALIZED (
        SELECT j.seq, j.kind, d.k, d.until, j.child_of, j.id, coalesce(j.tags, j.search) IS NOT NULL AS marked
        FROM unnest(keep_of, keep_first, keep_last, keep_until) d (k, first, last, until)
        JOIN {schema}.job j ON j.seq BETWEEN d.first AND d.last WHERE j.state = 0 AND NOT j.special
      ), kept AS (
        INSERT INTO {schema}.done (last, first, started_at, finished_at, expires_at, kind, results)
        SELECT d.last, d.first, d.at, settle_{set}.at, d.until, kinds[1], d.results
        FROM unnest(keep_first, keep_last, keep_at, keep_until, keep_results) d (first, last, at, until, results)
      ), counted AS (
        INSERT INTO {schema}.tally (kind, running, completed, total_completed)
        SELECT e.kind, -count(*), count(*), count(*) FROM ended e GROUP BY e.kind
      )
      SELECT array_agg(e.seq), array_agg(e.k), array_agg(e.seq) FILTER (WHERE e.marked), array_agg(e.until) FILTER (WHERE e.marked),
        array_agg(e.child_of) FILTER (WHERE e.child_of IS NOT NULL), array_agg(e.id) FILTER (WHERE e.child_of IS NOT NULL),
        array_agg(e.seq) FILTER (WHERE e.child_of IS NOT NULL)
      INTO more, of_more, marked, marked_until, more_parents, more_children, more_child_seqs FROM ended e;
    ELSE
      WITH ended AS MATERIALIZED (
        SELECT j.seq, j.kind, d.k, d.until, d.nth, j.child_of, j.id, coalesce(j.tags, j.search) IS NOT NULL AS marked
        FROM unnest(keep_of, keep_first, keep_last, keep_until) WITH ORDINALITY d (k, first, last, until, nth)
        JOIN {schema}.job j ON j.seq BETWEEN d.first AND d.last WHERE j.state = 0 AND NOT j.special
      ), runs AS MATERIALIZED (
        SELECT e.nth, e.kind, count(*)::int AS n FROM ended e GROUP BY e.nth, e.kind
      ), kept AS (
        INSERT INTO {schema}.done (last, first, started_at, finished_at, expires_at, kind, kinds, results)
        SELECT keep_last[r.nth], keep_first[r.nth], keep_at[r.nth], settle_{set}.at, keep_until[r.nth],
          CASE WHEN count(*) = 1 THEN min(r.kind) ELSE 0 END,
          CASE WHEN count(*) > 1 AND sum(r.n) >= 16 THEN array_agg(r.kind) END, keep_results[r.nth]
        FROM runs r GROUP BY r.nth
      ), counted AS (
        INSERT INTO {schema}.tally (kind, running, completed, total_completed)
        SELECT r.kind, -sum(r.n), sum(r.n), sum(r.n) FROM runs r GROUP BY r.kind
      )
      SELECT array_agg(e.seq), array_agg(e.k), array_agg(e.seq) FILTER (WHERE e.marked), array_agg(e.until) FILTER (WHERE e.marked),
        array_agg(e.child_of) FILTER (WHERE e.child_of IS NOT NULL), array_agg(e.id) FILTER (WHERE e.child_of IS NOT NULL),
        array_agg(e.seq) FILTER (WHERE e.child_of IS NOT NULL)
      INTO more, of_more, marked, marked_until, more_parents, more_children, more_child_seqs FROM ended e;
    END IF;
    IF marked IS NOT NULL THEN PERFORM {schema}.mark_done_{set}(marked, marked_until); END IF;
    seqs := seqs || more;
    of_seqs := of_seqs || of_more;
    parents := parents || more_parents;
    children := children || more_children;
    child_seqs := child_seqs || more_child_seqs;
  END IF;

  IF parents IS NOT NULL THEN
    PERFORM {schema}.note_children_{set}(at, parents, children, child_seqs, given_first, given);
  END IF;

  IF back_of IS NOT NULL THEN
    WITH back AS (
      UPDATE {schema}.job j SET state = 3, rank = d.due, rest = d.rest FROM (
        SELECT unnest(back_of) AS k, unnest(back_seq) AS seq, unnest(back_due) AS due,
          unnest(string_to_array(rests, sep, '')) AS rest
      ) d
      WHERE j.seq BETWEEN d.seq AND d.seq AND d.k IS NOT NULL AND j.state = 0 AND NOT j.special
      RETURNING j.seq, j.kind, d.k, coalesce(j.tags, j.search) AS marks
    ), counted AS (
      INSERT INTO {schema}.tally (kind, running, retrying, total_failed, total_retried)
      SELECT b.kind, -count(*), count(*), count(*), count(*) FROM back b GROUP BY b.kind
    )
    SELECT array_agg(b.seq), array_agg(b.k), count(b.marks) INTO more, of_more, n FROM back b;
    IF n > 0 THEN RAISE SQLSTATE 'MR001' USING MESSAGE = 'marked job'; END IF;
    seqs := seqs || more;
    of_seqs := of_seqs || of_more;
  END IF;

  IF coalesce(cardinality(seqs), 0) <> asked THEN
    IF EXISTS (
      SELECT 1 FROM unnest(del_first || keep_first || back_seq, del_last || keep_last) d (first, last)
      JOIN {schema}.job j ON j.seq BETWEEN d.first AND coalesce(d.last, d.first) WHERE j.special
    ) THEN
      RAISE SQLSTATE 'MR001' USING MESSAGE = 'special job';
    END IF;
    SELECT string_agg(t.k || ':' || t.seq, ',') INTO lost FROM (
      SELECT settled[g.i] AS k, generate_series(settled[g.i + 1], settled[g.i + 2]) AS seq
      FROM generate_series(1, cardinality(settled), 5) g (i)
      EXCEPT SELECT u.k, u.seq FROM unnest(of_seqs, seqs) u (k, seq)
    ) t;
  END IF;

  SELECT array_agg(c.k), array_agg(c.n) INTO ended_of, ended
  FROM (SELECT u.k, count(*)::int AS n FROM unnest(of_seqs) u (k) GROUP BY u.k) c;
  FOR e IN 1 .. coalesce(cardinality(ended_of), 0) LOOP
    k := ended_of[e];
    IF undone[k] <= ended[e] THEN
      DELETE FROM {schema}.lease t WHERE t.token = tokens[k];
    ELSIF keep_of IS NULL AND back_of IS NULL THEN
      UPDATE {schema}.lease t SET undone = t.undone - ended[e] WHERE t.token = tokens[k];
    ELSE
      UPDATE {schema}.lease t
      SET undone = t.undone - ended[e], spans = {schema}.cut_{set}(t.spans, keep_first || back_seq, keep_last || back_seq)
      WHERE t.token = tokens[k];
    END IF;
  END LOOP;
  RETURN lost;
END
$$;

-- end_exactly(at, starts, settled, results): ends jobs whose leases the desk has locked, and writes, and whose gates it has told;
-- `starts` are those of the claims, the rest as above. MR001 when any of them is not there, is special, or is a child: the desk
-- may be counting those of its parent.
CREATE OR REPLACE FUNCTION {schema}.end_exactly_{set}(
  at bigint, starts bigint[], settled bigint[], results text) RETURNS void
LANGUAGE plpgsql
{steady}
{nested}
AS $$
DECLARE
  asked bigint := 0; forgets boolean := false; keeps boolean := false;
  groups text[] := string_to_array(results, chr(29), '');
  gone bigint := 0; kept bigint := 0;
  gone_marks json; marked bigint[]; marked_until bigint[];
BEGIN
  SELECT sum(settled[g.i + 2] - settled[g.i + 1] + 1), bool_or(settled[g.i + 4] = 0), bool_or(settled[g.i + 4] > 0)
  INTO asked, forgets, keeps FROM generate_series(1, cardinality(settled), 5) g (i);
  IF forgets THEN
    WITH gone AS (
      DELETE FROM {schema}.job j USING generate_series(1, cardinality(settled), 5) g (i)
      WHERE settled[g.i + 4] = 0 AND j.seq BETWEEN settled[g.i + 1] AND settled[g.i + 2]
        AND j.state = 0 AND NOT j.special AND j.child_of IS NULL
      RETURNING CASE WHEN coalesce(j.tags, j.search) IS NOT NULL THEN json_build_array(j.seq, j.tags, j.search, 0) END AS marks
    )
    SELECT count(*), json_agg(g.marks) FILTER (WHERE g.marks IS NOT NULL) INTO gone, gone_marks FROM gone g;
    IF gone_marks IS NOT NULL THEN PERFORM {schema}.unmark_{set}(0, gone_marks); END IF;
  END IF;
  IF keeps THEN
    WITH ended AS MATERIALIZED (
      SELECT g.i, j.kind, j.seq, coalesce(j.tags, j.search) IS NOT NULL AS marked
      FROM generate_series(1, cardinality(settled), 5) g (i)
      JOIN {schema}.job j ON j.seq BETWEEN settled[g.i + 1] AND settled[g.i + 2]
      WHERE settled[g.i + 4] > 0 AND j.state = 0 AND NOT j.special AND j.child_of IS NULL
    ), done AS (
      INSERT INTO {schema}.done (last, first, started_at, finished_at, expires_at, kind, kinds, results)
      SELECT settled[e.i + 2], settled[e.i + 1], starts[settled[e.i]], end_exactly_{set}.at,
        end_exactly_{set}.at + settled[e.i + 4], CASE WHEN min(e.kind) = max(e.kind) THEN min(e.kind) ELSE 0 END,
        CASE WHEN min(e.kind) <> max(e.kind) AND count(*) >= 16 THEN array_agg(DISTINCT e.kind) END, groups[(e.i + 4) / 5]
      FROM ended e GROUP BY e.i
    )
    SELECT count(*), array_agg(e.seq) FILTER (WHERE e.marked), array_agg(at + settled[e.i + 4]) FILTER (WHERE e.marked)
    INTO kept, marked, marked_until FROM ended e;
    IF marked IS NOT NULL THEN PERFORM {schema}.mark_done_{set}(marked, marked_until); END IF;
  END IF;
  IF gone + kept <> asked THEN RAISE SQLSTATE 'MR001' USING MESSAGE = 'not as told'; END IF;
END
$$;

-- cut(spans, firsts, lasts) -> spans: without these ranges, each of which lies within one of the spans, or in none.
CREATE OR REPLACE FUNCTION {schema}.cut_{set}(spans bigint[], firsts bigint[], lasts bigint[]) RETURNS bigint[]
LANGUAGE sql STABLE
AS $$
  -- What lies between two cuts of a span, or between one and an end of it.
  SELECT coalesce(array_agg(e.bound ORDER BY e.bound, e.side), '{}')
  FROM (
    SELECT lag(c.last, 1, spans[g.i] - 1) OVER (PARTITION BY g.i ORDER BY c.first) + 1 AS first, c.first - 1 AS last
    FROM generate_series(1, cardinality(spans), 2) g (i)
    CROSS JOIN LATERAL (
      SELECT u.first, u.last FROM unnest(firsts, lasts) u (first, last) WHERE u.first BETWEEN spans[g.i] AND spans[g.i + 1]
      UNION ALL SELECT spans[g.i + 1] + 1, NULL
    ) c
  ) p
  CROSS JOIN LATERAL (VALUES (p.first, 0), (p.last, 1)) e (bound, side)
  WHERE p.first <= p.last
$$;

-- note_children(at, parents, children, seqs, given_first, given): tells parents of children that completed, each at its
-- position, with what they gave. The last one of a parent means more, which the desk has to do: MR001.
CREATE OR REPLACE FUNCTION {schema}.note_children_{set}(
  at bigint, parents bigint[], children text[], seqs bigint[], given_first bigint[], given text[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
  fewest int;
  results text[];
BEGIN
  IF given IS NOT NULL THEN results := {schema}.given_at_{set}(seqs, given_first, given); END IF;
  -- In order, so that two calls with children of the same parents do not wait for each other.
  PERFORM 1 FROM {schema}.parent p WHERE p.seq = ANY (parents) ORDER BY p.seq FOR UPDATE;
  WITH noted AS (
    UPDATE {schema}.link l SET ended_at = note_children_{set}.at, result = c.result
    FROM unnest(parents, children, results) c (parent, child, result)
    WHERE l.parent = ANY (ARRAY[c.parent]) AND l.child BETWEEN c.child AND c.child AND l.ended_at IS NULL AND l.state NOT LIKE '%"end":%'
    RETURNING l.parent
  ), left_over AS (
    UPDATE {schema}.parent p SET waiting = p.waiting - n.count
    FROM (SELECT o.parent, count(*)::int AS count FROM noted o GROUP BY o.parent) n WHERE p.seq = n.parent
    RETURNING p.waiting
  )
  SELECT min(o.waiting) INTO fewest FROM left_over o;
  IF fewest <= 0 THEN RAISE SQLSTATE 'MR001' USING MESSAGE = 'last child'; END IF;
END
$$;

-- given_at(seqs, given_first, given) -> texts: what was given at these positions.
CREATE OR REPLACE FUNCTION {schema}.given_at_{set}(seqs bigint[], given_first bigint[], given text[]) RETURNS text[]
LANGUAGE sql STABLE
SET enable_hashjoin = on
SET enable_nestloop = off
AS $$
  SELECT array_agg(r.text ORDER BY u.nth) FROM unnest(seqs) WITH ORDINALITY u (seq, nth) LEFT JOIN (
    SELECT g.first + t.nth - 1 AS seq, nullif(t.text, '') AS text FROM unnest(given_first, given) g (first, text),
      unnest(string_to_array(g.text, chr(30))) WITH ORDINALITY t (text, nth)
  ) r ON r.seq = u.seq
$$;
