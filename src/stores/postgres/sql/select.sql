-- Lists look at a bounded number of jobs in the order of their state, and tell the place of each, a to d.

-- :scanShelved
SELECT j.seq, j.id, j.kind, j.tags, j.rest, j.created_at, j.rank AS a, j.seq AS b, 0 AS c, 0 AS d,
  CASE WHEN j.state IN (5, 6, 7) THEN (j.rest::json->>'finishedAt')::float8
    WHEN j.rank = 'Infinity' THEN j.created_at ELSE j.rank END AS at
FROM {schema}.job j WHERE j.state = $1 AND j.state <> 0 AND (j.rank, j.seq) > ($2::float8, $3::bigint)
ORDER BY j.rank, j.seq LIMIT $6

-- :scanShelvedBack
SELECT j.seq, j.id, j.kind, j.tags, j.rest, j.created_at, j.rank AS a, j.seq AS b, 0 AS c, 0 AS d,
  (j.rest::json->>'finishedAt')::float8 AS at
FROM {schema}.job j WHERE j.state = $1 AND j.state <> 0 AND (j.rank, j.seq) < ($2::float8, $3::bigint)
ORDER BY j.rank DESC, j.seq DESC LIMIT $6

-- :scanCompleted
SELECT f.seq, f.id, f.kind, f.tags, f.rest, f.created_at, f.rank AS a, f.seq AS b, 0 AS c, 0 AS d, f.at FROM (
  (
    SELECT j.seq, j.id, j.kind, j.tags, j.rest, j.created_at, j.rank, (j.rest::json->>'finishedAt')::float8 AS at
    FROM {schema}.job j WHERE j.state = $1 AND j.state <> 0 AND (j.rank, j.seq) < ($2::float8, $3::bigint)
    ORDER BY j.rank DESC, j.seq DESC LIMIT $6
  ) UNION ALL (
    SELECT j.seq, j.id, j.kind, j.tags, j.rest, j.created_at, d.expires_at, d.finished_at
    FROM {schema}.done d JOIN {schema}.job j ON j.seq BETWEEN d.first AND d.last AND j.state = 0
    WHERE d.expires_at <= $2::float8 AND (d.expires_at, j.seq) < ($2::float8, $3::bigint)
    ORDER BY d.expires_at DESC, d.last DESC, j.seq DESC LIMIT $6
  )
) f ORDER BY f.rank DESC, f.seq DESC LIMIT $6

-- :scanPending
SELECT j.seq, j.id, j.kind, j.tags, j.rest, j.created_at, p.a, p.b, p.c, p.d, j.created_at AS at
FROM (
  (
    SELECT 0 AS a, r.queue AS b, r.lane AS c, s.seq AS d
    FROM {schema}.ready r CROSS JOIN LATERAL generate_series(r.first, r.last) s (seq)
    WHERE $2 = 0 AND (r.queue, r.lane, r.last) > ($3, $4, $5::bigint) AND (r.queue, r.lane, s.seq) > ($3, $4, $5::bigint)
    ORDER BY r.queue, r.lane, s.seq LIMIT $6
  ) UNION ALL (
    SELECT 1, 0, 0, w.seq FROM {schema}.waiting w WHERE $2 = 0 OR w.seq > $5::bigint ORDER BY w.seq LIMIT $6
  )
) p JOIN {schema}.job j ON j.seq = p.d ORDER BY p.a, p.b, p.c, p.d LIMIT $6

-- :scanRunning
SELECT j.seq, j.id, j.kind, j.tags, j.rest, j.created_at, j.seq AS a, 0 AS b, 0 AS c, 0 AS d, l.at
FROM {schema}.lease l
CROSS JOIN LATERAL generate_series(1, cardinality(l.spans), 2) s (i)
JOIN {schema}.job j ON j.seq BETWEEN l.spans[s.i] AND l.spans[s.i + 1]
WHERE j.state = 0 AND j.seq > $2::bigint ORDER BY j.seq LIMIT $6

-- :select  $7: kinds or null, $8: tag, $9: cause, $10: whether only mendable ones, $11 and $12: times, $13: how many
WITH scanned AS MATERIALIZED (SELECT row_number() OVER () AS nth, s.* FROM ({scan}) s)
SELECT h.id, h.nth, h.a, h.b, h.c, h.d, true AS hit FROM (
  SELECT * FROM scanned s
  WHERE ($7::int[] IS NULL OR s.kind = ANY ($7::int[]))
    AND ($8::text IS NULL OR s.tags::jsonb ? $8)
    AND ($9::text IS NULL OR s.rest::json->>'cause' = $9)
    AND (NOT $10 OR ((s.rest::json->'failure'->'root') IS NULL
      AND coalesce(s.rest::json->'failure'->>'code', '') NOT IN ('COMPENSATED', 'FLOW_INCOMPLETE')))
    AND ($11::float8 IS NULL OR s.at >= $11::float8) AND ($12::float8 IS NULL OR s.at < $12::float8)
  ORDER BY s.nth LIMIT $13
) h
UNION ALL (SELECT s.id, s.nth, s.a, s.b, s.c, s.d, false FROM scanned s ORDER BY s.nth DESC LIMIT 2)
ORDER BY hit DESC, nth
