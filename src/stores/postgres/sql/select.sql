-- Functions that find jobs of a state in its order, made by statements.ts. Each goes through what is found by an index, in
-- bounded steps, and looks at a bounded number of jobs and runs. Runs know which kinds they hold, so most are passed by.
--
-- In. `wanted`: what is asked for. a to d is the place behind which to look; most is how many; mark is what leads to few
-- jobs, if anything does: a tag, a field or a cause, which is checked once more with the rest.
-- Out. `listed`, in order: each hit with its place, and, if it gave up before the end, the place up to which it has looked.

-- :suits  whether a job `j` is wanted, whose time is `at`
(f.kinds IS NULL OR j.kind = ANY (f.kinds))
  AND (f.tag IS NULL OR j.tags::jsonb ? f.tag)
  AND (f.search IS NULL OR j.search::jsonb ? f.search)
  AND (f.cause IS NULL OR j.rest::json->>'cause' = f.cause)
  AND (NOT f.mendable OR ((j.rest::json->'failure'->'root') IS NULL
    AND coalesce(j.rest::json->'failure'->>'code', '') NOT IN ('COMPENSATED', 'FLOW_INCOMPLETE')))
  AND (f.after IS NULL OR {at} >= f.after) AND (f.before IS NULL OR {at} < f.before)
  AND (f.path IS NULL OR {schema}.has_field_{set}(j.input, f.path, f.value))

-- :holds  whether a run `r` may have jobs of the wanted kinds
(f.kinds IS NULL OR r.kind = ANY (f.kinds) OR r.kind = 0 AND (r.kinds IS NULL OR r.kinds && f.kinds))

-- :few  whether so few jobs that are pending or running have the mark that all of them are looked at
f.mark IS NOT NULL AND (
  SELECT count(*) FROM (SELECT 1 FROM {schema}.mark m WHERE m.mark = f.mark AND m.state = 0 LIMIT 2001) x
) <= 2000

-- :led  whether a mark leads to jobs of other states; not if many have it and kind or time may tell more of them apart
f.mark IS NOT NULL AND (coalesce(f.after, f.before) IS NULL AND f.kinds IS NULL OR (
  SELECT count(*) FROM (SELECT 1 FROM {schema}.mark m WHERE m.mark = f.mark AND m.state = f.state LIMIT {jobs} + 1) x
) <= {jobs})

-- :cost  of looking at the jobs of a run `r`; a run that is passed by costs 1
CASE WHEN f.mark IS NULL THEN 10 * (r.last - r.first + 1) ELSE 10 END

-- :looked  of the runs that are `near`: `runs`, whose jobs are looked at, and the `edge` up to which that is all
held AS (
  SELECT r.*, {cost} AS cost FROM near r WHERE r.holds
), summed AS MATERIALIZED (
  SELECT r.*, sum(r.cost) OVER (ORDER BY {order}) AS total FROM held r
), runs AS MATERIALIZED (
  SELECT * FROM summed r WHERE r.total - r.cost <= {runs} - spent
), edge AS (
  -- The last of them, if there are too many, or else the last that is near.
  SELECT e.*, (SELECT coalesce(max(r.total), 0) FROM runs r) + (SELECT count(*) FROM near) AS spent,
    (SELECT count(*) FROM near) AS count
  FROM (
    (SELECT r.* FROM near r WHERE (SELECT count(*) FROM summed) = (SELECT count(*) FROM runs) ORDER BY {back} LIMIT 1)
    UNION ALL (
      SELECT {columns} FROM runs r
      WHERE (SELECT count(*) FROM summed) > (SELECT count(*) FROM runs) ORDER BY {back} LIMIT 1
    )
  ) e
)

-- :shelved  by rank and position; finished ones backwards
DECLARE
  jobs refcursor; job record; here {schema}.listed;
  a float8 := f.a; b bigint := f.b;
  edge float8 := {edge};  -- of ranks
  guide text := CASE WHEN {led} THEN f.mark END; nums int[] := f.kinds; lags float8[];
  size int := f.most; looked int := 0; wants int := f.most; n int;
BEGIN
  IF f.state IN (1, 3, 4) THEN
    IF f.after > a THEN
      a := f.after;
      b := -1;
    END IF;
    -- Blocked jobs that no time wakes are at the end.
    IF f.state <> 4 THEN edge := coalesce(f.before, edge); END IF;
  ELSIF guide IS NULL AND coalesce(f.after, f.before) IS NOT NULL THEN
    -- What is kept for equally long expires in the order in which it finished: each such lag of a kind is gone through by
    -- itself. Which there are, the index tells.
    WITH RECURSIVE kept (num, lag, nth) AS (
      (
        SELECT j.kind, j.rank - j.finished_at, 1 FROM {schema}.job j WHERE j.state = f.state AND j.finished_at IS NOT NULL
        ORDER BY j.kind, j.rank - j.finished_at LIMIT 1
      ) UNION ALL SELECT x.kind, x.lag, k.nth + 1 FROM kept k CROSS JOIN LATERAL (
        SELECT j.kind, j.rank - j.finished_at AS lag FROM {schema}.job j
        WHERE j.state = f.state AND j.finished_at IS NOT NULL AND (j.kind, j.rank - j.finished_at) > (k.num, k.lag)
        ORDER BY j.kind, j.rank - j.finished_at LIMIT 1
      ) x WHERE k.nth <= {streams}
    )
    SELECT array_agg(k.num) FILTER (WHERE nums IS NULL OR k.num = ANY (nums)),
      array_agg(k.lag) FILTER (WHERE nums IS NULL OR k.num = ANY (nums)), max(k.nth)
    INTO nums, lags, n FROM kept k;
    IF n > {streams} THEN
      nums := f.kinds;
      lags := NULL;
    ELSIF nums IS NULL THEN
      RETURN;
    END IF;
  END IF;

  LOOP
    OPEN jobs FOR
      SELECT x.rank, x.seq, j.id, ({suits}) AS hit
      FROM (
        SELECT u.rank, u.seq FROM (
          (
            SELECT m.rank, m.seq FROM {schema}.mark m
            WHERE guide IS NOT NULL AND m.mark = guide AND m.state = f.state
              AND (m.rank, m.seq) {past} (a, b) AND m.rank {upto} edge
            ORDER BY m.rank {down}, m.seq {down} LIMIT size
          ) UNION ALL (
            SELECT y.rank, y.seq
            FROM unnest(nums, lags) k (num, lag)
            CROSS JOIN LATERAL (SELECT coalesce(f.before, 'Infinity') + k.lag + 1 AS below) z
            CROSS JOIN LATERAL (
              SELECT i.rank, i.seq FROM {schema}.job i
              WHERE i.state = f.state AND i.finished_at IS NOT NULL AND i.kind = k.num AND i.rank - i.finished_at = k.lag
                AND (i.rank, i.seq) {past} (least(a, z.below), CASE WHEN z.below < a THEN 0 ELSE b END)
                AND i.rank >= coalesce(f.after, '-Infinity') + k.lag - 1
              ORDER BY i.rank {down}, i.seq {down} LIMIT size
            ) y WHERE guide IS NULL AND lags IS NOT NULL
          ) UNION ALL (
            SELECT y.rank, y.seq FROM unnest(nums) k (num) CROSS JOIN LATERAL (
              SELECT i.rank, i.seq FROM {schema}.job i
              WHERE i.state = f.state AND i.state <> 0 AND i.kind = k.num
                AND (i.rank, i.seq) {past} (a, b) AND i.rank {upto} edge
              ORDER BY i.rank {down}, i.seq {down} LIMIT size
            ) y WHERE guide IS NULL AND lags IS NULL AND nums IS NOT NULL
          ) UNION ALL (
            SELECT i.rank, i.seq FROM {schema}.job i
            WHERE guide IS NULL AND nums IS NULL AND i.state = f.state AND i.state <> 0
              AND (i.rank, i.seq) {past} (a, b) AND i.rank {upto} edge
            ORDER BY i.rank {down}, i.seq {down} LIMIT size
          )
        ) u ORDER BY u.rank {down}, u.seq {down} LIMIT size
      ) x CROSS JOIN LATERAL (SELECT * FROM {schema}.job k WHERE k.seq = x.seq OFFSET 0) j ORDER BY x.rank {down}, x.seq {down};
    n := 0;
    LOOP
      FETCH jobs INTO job;
      EXIT WHEN NOT FOUND;
      n := n + 1;
      a := job.rank;
      b := job.seq;
      CONTINUE WHEN job.hit IS NOT TRUE;
      here := (job.id, a, b, 0, 0, true);
      RETURN NEXT here;
      wants := wants - 1;
      IF wants = 0 THEN RETURN; END IF;
    END LOOP;
    CLOSE jobs;
    IF n < size THEN RETURN; END IF;
    looked := looked + n;
    EXIT WHEN looked >= {jobs};
    size := least(4 * size, {jobs});
  END LOOP;
  here := (NULL, a, b, 0, 0, false);
  RETURN NEXT here;
END

-- :done  completed ones in runs, by expiry and position, backwards
DECLARE
  rows refcursor; got record; here {schema}.listed;
  a float8 := f.a; b bigint := f.b;
  nums int[]; lags int[];
  size int := 8; spent bigint := 0; wants int := f.most; n bigint; run record;
BEGIN
  -- Those are among the shelved ones, by their marks.
  IF {led} THEN RETURN; END IF;
  IF f.kinds IS NOT NULL OR coalesce(f.after, f.before) IS NOT NULL THEN
    -- As of shelved jobs, by runs. Those of several kinds count as kind 0.
    WITH RECURSIVE kept (num, lag, nth) AS (
      (
        SELECT d.kind, ((d.expires_at - d.finished_at) / 1000)::int, 1 FROM {schema}.done d
        ORDER BY d.kind, ((d.expires_at - d.finished_at) / 1000)::int LIMIT 1
      ) UNION ALL SELECT x.kind, x.lag, k.nth + 1 FROM kept k CROSS JOIN LATERAL (
        SELECT d.kind, ((d.expires_at - d.finished_at) / 1000)::int AS lag FROM {schema}.done d
        WHERE (d.kind, ((d.expires_at - d.finished_at) / 1000)::int) > (k.num, k.lag)
        ORDER BY d.kind, ((d.expires_at - d.finished_at) / 1000)::int LIMIT 1
      ) x WHERE k.nth <= {streams}
    )
    SELECT array_agg(k.num) FILTER (WHERE f.kinds IS NULL OR k.num = 0 OR k.num = ANY (f.kinds)),
      array_agg(k.lag) FILTER (WHERE f.kinds IS NULL OR k.num = 0 OR k.num = ANY (f.kinds)), max(k.nth)
    INTO nums, lags, n FROM kept k;
    IF n > {streams} THEN
      lags := NULL;
    ELSIF lags IS NULL THEN
      RETURN;
    END IF;
  END IF;

  LOOP
    OPEN rows FOR
      WITH near AS MATERIALIZED (
        SELECT * FROM (
          (
            SELECT y.* FROM unnest(nums, lags) k (num, lag) CROSS JOIN LATERAL (
              SELECT r.first, r.last, r.expires_at, r.finished_at, {holds} AS holds FROM {schema}.done r
              WHERE r.kind = k.num AND ((r.expires_at - r.finished_at) / 1000)::int = k.lag
                AND r.expires_at <= least(a, coalesce(f.before, 'Infinity') + 1000.0 * k.lag + 1000, 9e18)::bigint
                AND r.expires_at >= greatest(coalesce(f.after, 0) + 1000.0 * k.lag, 0)::bigint
                AND (r.expires_at < a OR r.first < b)
              ORDER BY r.expires_at DESC, r.last DESC LIMIT size
            ) y WHERE lags IS NOT NULL
          ) UNION ALL (
            SELECT r.first, r.last, r.expires_at, r.finished_at, {holds} FROM {schema}.done r
            WHERE lags IS NULL AND r.expires_at <= least(a, 9e18)::bigint AND (r.expires_at < a OR r.first < b)
            ORDER BY r.expires_at DESC, r.last DESC LIMIT size
          )
        ) u ORDER BY u.expires_at DESC, u.last DESC LIMIT size
      ), {looked}
      SELECT d.expires_at, d.last, d.first, NULL AS spent, NULL AS count, h.id, h.seq
      FROM runs d CROSS JOIN LATERAL (
        SELECT j.id, j.seq FROM {schema}.job j
        WHERE f.mark IS NULL AND j.seq BETWEEN d.first AND d.last AND j.state = 0
          AND (d.expires_at, j.seq) < (a, b) AND {suits}
        UNION ALL
        SELECT j.id, j.seq FROM {schema}.mark m CROSS JOIN LATERAL (SELECT * FROM {schema}.job k WHERE k.seq = m.seq OFFSET 0) j
        WHERE f.mark IS NOT NULL AND m.mark = f.mark AND m.state = 5 AND m.rank = d.expires_at
          AND m.seq BETWEEN d.first AND d.last AND (d.expires_at, j.seq) < (a, b) AND {suits}
      ) h
      UNION ALL SELECT e.expires_at, e.last, e.first, e.spent, e.count, NULL, NULL FROM edge e
      ORDER BY 1 DESC, 2 DESC, 7 DESC NULLS LAST;
    run := NULL;
    LOOP
      FETCH rows INTO got;
      EXIT WHEN NOT FOUND;
      run := got;
      CONTINUE WHEN got.id IS NULL;
      here := (got.id, got.expires_at, got.seq, 0, 0, true);
      RETURN NEXT here;
      wants := wants - 1;
      IF wants = 0 THEN RETURN; END IF;
    END LOOP;
    CLOSE rows;
    IF run IS NULL THEN RETURN; END IF;
    a := run.expires_at;
    b := run.first;
    spent := spent + run.spent;
    EXIT WHEN spent >= {runs};
    IF run.count < size THEN RETURN; END IF;
    size := least(4 * size, 8192);
  END LOOP;
  here := (NULL, a, b, 0, 0, false);
  RETURN NEXT here;
END

-- :ready  pending ones in runs, by line and position
DECLARE
  rows refcursor; got record; here {schema}.listed;
  line record; run record; d bigint;  -- the position up to which it has looked
  size int; spent bigint := 0; wants int := f.most; n int;
BEGIN
  IF f.a > 0 THEN RETURN; END IF;
  IF {few} THEN
    RETURN QUERY SELECT j.id, 0::float8, k.queue::float8, k.lane::float8, j.seq::float8, true
      FROM {schema}.mark m CROSS JOIN LATERAL (SELECT * FROM {schema}.job k WHERE k.seq = m.seq OFFSET 0) j
      CROSS JOIN LATERAL (SELECT * FROM {schema}.kind i WHERE i.num = j.kind OFFSET 0) k
      CROSS JOIN LATERAL (
        SELECT c.first FROM {schema}.ready c WHERE c.queue = k.queue AND c.lane = k.lane AND c.last >= j.seq
        ORDER BY c.last LIMIT 1
      ) r
      WHERE m.mark = f.mark AND m.state = 0 AND r.first <= j.seq AND (k.queue, k.lane, j.seq) > (f.b, f.c, f.d) AND {suits}
      ORDER BY k.queue, k.lane, j.seq LIMIT f.most;
    RETURN;
  END IF;
  FOR line IN
    SELECT DISTINCT k.queue, k.lane FROM {schema}.kind k
    WHERE (f.kinds IS NULL OR k.num = ANY (f.kinds)) AND (k.queue, k.lane) >= (f.b, f.c) ORDER BY k.queue, k.lane
  LOOP
    d := CASE WHEN line.queue = f.b AND line.lane = f.c THEN f.d ELSE -1 END;
    size := 8;
    spent := spent + 20;  -- also of a line without any
    LOOP
      OPEN rows FOR
        WITH near AS MATERIALIZED (
          SELECT r.first, r.last, {holds} AND (r.created_at IS NULL
            OR (f.after IS NULL OR r.created_at >= f.after) AND (f.before IS NULL OR r.created_at < f.before)) AS holds
          FROM {schema}.ready r
          WHERE r.queue = line.queue AND r.lane = line.lane AND r.last > d ORDER BY r.last LIMIT size
        ), {looked}
        SELECT r.last, NULL AS spent, NULL AS count, h.id, h.seq
        FROM runs r CROSS JOIN LATERAL (
          SELECT j.id, j.seq FROM {schema}.job j
          WHERE f.mark IS NULL AND j.seq BETWEEN greatest(r.first, d + 1) AND r.last AND {suits}
          UNION ALL
          SELECT j.id, j.seq FROM {schema}.mark m CROSS JOIN LATERAL (SELECT * FROM {schema}.job k WHERE k.seq = m.seq OFFSET 0) j
          WHERE f.mark IS NOT NULL AND m.mark = f.mark AND m.state = 0 AND m.rank = 0
            AND m.seq BETWEEN greatest(r.first, d + 1) AND r.last AND {suits}
        ) h
        UNION ALL SELECT e.last, e.spent, e.count, NULL, NULL FROM edge e
        ORDER BY 1, 5 NULLS LAST;
      run := NULL;
      LOOP
        FETCH rows INTO got;
        EXIT WHEN NOT FOUND;
        run := got;
        CONTINUE WHEN got.id IS NULL;
        here := (got.id, 0, line.queue, line.lane, got.seq, true);
        RETURN NEXT here;
        wants := wants - 1;
        IF wants = 0 THEN RETURN; END IF;
      END LOOP;
      CLOSE rows;
      n := 0;
      IF NOT run IS NULL THEN
        d := run.last;
        spent := spent + run.spent;
        n := run.count;
      END IF;
      IF spent >= {runs} THEN
        here := (NULL, 0, line.queue, line.lane, d, false);
        RETURN NEXT here;
        RETURN;
      END IF;
      EXIT WHEN n < size;
      size := least(4 * size, 8192);
    END LOOP;
  END LOOP;
END

-- :waiting  pending ones that have to pass gates, by position
DECLARE
  rows refcursor; got record; here {schema}.listed;
  d bigint := CASE WHEN f.a > 0 THEN f.d ELSE -1 END;
  size int := f.most; looked int := 0; wants int := f.most; n int;
  few boolean := {few};
BEGIN
  LOOP
    OPEN rows FOR
      SELECT x.seq, j.id, ({suits}) AS hit
      FROM (
        SELECT u.seq FROM (
          (
            SELECT m.seq FROM {schema}.mark m CROSS JOIN LATERAL (SELECT FROM {schema}.waiting i WHERE i.seq = m.seq OFFSET 0) w
            WHERE few AND m.mark = f.mark AND m.state = 0 AND m.rank = 0 AND m.seq > d ORDER BY m.seq LIMIT size
          ) UNION ALL (
            SELECT y.seq FROM unnest(f.kinds) k (num) CROSS JOIN LATERAL (
              SELECT w.seq FROM {schema}.waiting w WHERE w.kind = k.num AND w.seq > d ORDER BY w.seq LIMIT size
            ) y WHERE NOT few AND f.kinds IS NOT NULL
          ) UNION ALL (
            SELECT w.seq FROM {schema}.waiting w WHERE NOT few AND f.kinds IS NULL AND w.seq > d ORDER BY w.seq LIMIT size
          )
        ) u ORDER BY u.seq LIMIT size
      ) x CROSS JOIN LATERAL (SELECT * FROM {schema}.job k WHERE k.seq = x.seq OFFSET 0) j ORDER BY x.seq;
    n := 0;
    LOOP
      FETCH rows INTO got;
      EXIT WHEN NOT FOUND;
      n := n + 1;
      d := got.seq;
      CONTINUE WHEN got.hit IS NOT TRUE;
      here := (got.id, 1, 0, 0, d, true);
      RETURN NEXT here;
      wants := wants - 1;
      IF wants = 0 THEN RETURN; END IF;
    END LOOP;
    CLOSE rows;
    IF n < size THEN RETURN; END IF;
    looked := looked + n;
    EXIT WHEN looked >= {jobs};
    size := least(4 * size, {jobs});
  END LOOP;
  here := (NULL, 1, 0, 0, d, false);
  RETURN NEXT here;
END

-- :running  by position; all that run are looked at, which workers keep within bounds
BEGIN
  RETURN QUERY SELECT j.id, j.seq::float8, 0::float8, 0::float8, 0::float8, true
    FROM {schema}.lease l
    CROSS JOIN LATERAL generate_series(1, cardinality(l.spans), 2) s (i)
    CROSS JOIN LATERAL (
      SELECT * FROM {schema}.job k WHERE k.seq BETWEEN l.spans[s.i] AND l.spans[s.i + 1] AND k.state = 0 OFFSET 0
    ) j
    WHERE j.seq > f.a AND {suits}
    ORDER BY j.seq LIMIT f.most;
END
