-- What the desk reads. Job rows are locked, and so are the runs that pending ones are in: neither can be claimed or settled
-- by others until the desk is done. `{job}` stands for :job, with the rows of `j` as they are found.

-- :begin
SELECT pg_advisory_xact_lock({desk})

-- :time
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now

-- :arrivals  what others are admitting is theirs
SELECT n, jobs FROM {schema}.arrival ORDER BY n LIMIT $1 {skip}

-- :queues
SELECT num, name, paused, traffic FROM {schema}.queue ORDER BY num

-- :kinds
SELECT num, queue, name, lane FROM {schema}.kind ORDER BY num

-- :number
SELECT last FROM {schema}.number

-- :positions  so many blocks of them
SELECT nextval('{schema}.position') AS first FROM generate_series(1, $1)

-- :newKind
SELECT {schema}.kind_number_{set}($1, $2, $3)

-- :newQueue
INSERT INTO {schema}.queue (name) VALUES ($1) ON CONFLICT DO NOTHING

-- :job
SELECT j.seq, j.id, j.kind, j.state, j.special, j.rank, j.created_at, j.max_attempts, j.max_crashes, j.input, j.overrides,
  j.tags, j.search, j.metadata, j.rest, j.child_of, w.place, w.rank AS turn, r.first AS run_first, r.last AS run_last,
  p.state AS parent, p.waiting, p.doomed, d.started_at, coalesce(j.finished_at, d.finished_at) AS finished_at, d.expires_at,
  split_part(d.results, chr(30), (j.seq - d.first + 1)::int) AS result{also}
FROM {schema}.job j
CROSS JOIN LATERAL (SELECT * FROM {schema}.kind i WHERE i.num = j.kind OFFSET 0) k
LEFT JOIN LATERAL (SELECT * FROM {schema}.waiting i WHERE i.seq = j.seq OFFSET 0) w ON true
{asParent}
-- Only the run that it is in: another one that is locked would be missing to those who claim, or prune.
LEFT JOIN LATERAL (
  SELECT c.first, c.last FROM {schema}.ready c
  WHERE j.state = 0 AND c.queue = k.queue AND c.lane = k.lane AND c.first <= j.seq AND c.last = (
    SELECT n.last FROM {schema}.ready n
    WHERE n.queue = k.queue AND n.lane = k.lane AND n.last >= j.seq ORDER BY n.last LIMIT 1
  ) {lock}
) r ON true
LEFT JOIN LATERAL (
  SELECT c.first, c.started_at, c.finished_at, c.expires_at, c.results FROM {schema}.done c
  WHERE j.state = 0 AND r.first IS NULL AND c.first <= j.seq AND c.last = (
    SELECT n.last FROM {schema}.done n WHERE n.last >= j.seq ORDER BY n.last LIMIT 1
  ) {lock}
) d ON true

-- :asParent
LEFT JOIN LATERAL (
  SELECT c.state, c.waiting, c.doomed FROM {schema}.parent c WHERE c.seq = j.seq {lock}
) p ON true

-- :inOrder  not as the index has them: a plan that was made when there were few jobs would go along all of them
ORDER BY j.seq + 0

-- :liveJob  one that is known to be pending or running, and where: only its own row
SELECT j.seq, j.id, j.kind, j.state, j.special, j.rank, j.created_at, j.max_attempts, j.max_crashes, j.input, j.overrides,
  j.tags, j.search, j.metadata, j.rest, j.child_of

-- :nowhere
NULL::bigint AS place, NULL::float8 AS turn, NULL::bigint AS run_first, NULL::bigint AS run_last

-- :notDone
NULL::bigint AS started_at, NULL::float8 AS finished_at, NULL::bigint AS expires_at, NULL::text AS result

-- :running  if a lease covers it, which has been locked
{liveJob}, {nowhere}, p.state AS parent, p.waiting, p.doomed, {notDone}
FROM {schema}.job j {asParent}
WHERE j.seq = ANY ($1::bigint[]) AND j.state = 0 {inOrder}

-- :hasParents
(c.special OR c.child_of IS NOT NULL) AND c.rest LIKE '%"parents":[{%'

-- :parents
json_array_elements(c.rest::json->'family'->'parents') e

-- :parentsOfRunning
{job} WHERE j.id = ANY (ARRAY(
  SELECT e->>'id' FROM {schema}.job c CROSS JOIN LATERAL {parents} WHERE c.seq = ANY ($1::bigint[]) AND {hasParents}
)) {inOrder} {lockJob}

-- :linksToParents  fenced, because without statistics a planner would walk along all links of a parent for each child
SELECT l.parent, l.child, l.fan, l.ended_at, l.result, l.state
FROM {schema}.job c
CROSS JOIN LATERAL {parents}
CROSS JOIN LATERAL (SELECT p.seq FROM {schema}.job p WHERE p.id = e->>'id' OFFSET 0) p
CROSS JOIN LATERAL (SELECT k.* FROM {schema}.link k WHERE k.parent = p.seq AND k.child = c.id OFFSET 0) l

-- :linksToRunning
{linksToParents} WHERE c.seq = ANY ($1::bigint[]) AND {hasParents}

-- :byIds
{job} WHERE j.id = ANY ($1::text[]) {inOrder} {lockJob}

-- :parentsOf
{job} WHERE j.id = ANY (ARRAY(
  SELECT e->>'id' FROM {schema}.job c CROSS JOIN LATERAL {parents} WHERE c.id = ANY ($1::text[]) AND {hasParents}
)) {inOrder} {lockJob}

-- :linksTo
{linksToParents} WHERE c.id = ANY ($1::text[]) AND {hasParents}

-- :linksBetween  each parent and child
SELECT l.parent, l.child, l.fan, l.ended_at, l.result, l.state
FROM unnest($1::text[], $2::text[]) u (parent, child)
CROSS JOIN LATERAL (SELECT p.seq FROM {schema}.job p WHERE p.id = u.parent OFFSET 0) p
CROSS JOIN LATERAL (SELECT k.* FROM {schema}.link k WHERE k.parent = p.seq AND k.child = u.child OFFSET 0) l

-- :ancestors  all of them, parents of parents
WITH RECURSIVE up (id) AS (
  SELECT unnest($1::text[])
  UNION SELECT e->>'id' FROM up JOIN {schema}.job c ON c.id = up.id
  CROSS JOIN LATERAL {parents} WHERE {hasParents}
)
SELECT up.id FROM up LIMIT 20000

-- :byState
{job} WHERE j.state = $1 AND j.state <> 0 AND (j.rank, j.seq) > ($2::float8, $3::bigint) ORDER BY j.rank, j.seq LIMIT $4 {lockJob}

-- :completed  those that ended here, and those in runs
WITH found AS MATERIALIZED (
  (
    SELECT j.seq, j.rank FROM {schema}.job j
    WHERE j.state = 5 AND (j.rank, j.seq) > ($2::float8, $3::bigint) ORDER BY j.rank, j.seq LIMIT $4
  ) UNION ALL (
    SELECT j.seq, d.expires_at FROM {schema}.done d JOIN {schema}.job j ON j.seq BETWEEN d.first AND d.last AND j.state = 0
    WHERE d.expires_at >= least(greatest($2::float8, 0), 9e18)::bigint AND (d.expires_at, j.seq) > ($2::float8, $3::bigint)
    ORDER BY d.expires_at, d.last, j.seq LIMIT $4
  ) ORDER BY rank, seq LIMIT $4
)
{job} WHERE j.seq = ANY (ARRAY(SELECT found.seq FROM found)) ORDER BY coalesce(d.expires_at, j.rank), j.seq {lockJob}

-- :inLine  runs that others are claiming from are theirs
WITH runs AS MATERIALIZED (
  SELECT c.first, c.last FROM {schema}.ready c
  WHERE c.queue = $1 AND c.lane = $2 AND c.last > $3::bigint ORDER BY c.last LIMIT $4 {skip}
), found AS MATERIALIZED (
  SELECT s.seq, r.first, r.last FROM runs r CROSS JOIN LATERAL generate_series(greatest(r.first, $3::bigint + 1), r.last) s (seq)
  ORDER BY s.seq LIMIT $4
)
{liveJob}, NULL::bigint AS place, NULL::float8 AS turn, found.first AS run_first, found.last AS run_last, p.state AS parent,
  p.waiting, p.doomed, {notDone}
FROM found CROSS JOIN LATERAL (SELECT * FROM {schema}.job k WHERE k.seq = found.seq OFFSET 0) j {asParent}
WHERE j.state = 0 ORDER BY j.seq

-- :window  no job in a line stands before what the line has served: there is nothing but what vacuum has not cleared away
SELECT w.* FROM {schema}.waiting w
WHERE w.place = $1 AND (w.rank, w.seq) > (greatest($2::float8, {served}), CASE WHEN {served} > $2::float8 THEN 0 ELSE $3::bigint END)
ORDER BY w.rank, w.seq LIMIT $4

-- :served
(SELECT l.served FROM {schema}.line l WHERE l.num = $1)

-- :heads  of a place: each list by commas
SELECT string_agg(w.seq::text, ',') AS seqs, string_agg(w.rank::text, ',') AS ranks, string_agg(w.kind::text, ',') AS kinds,
  string_agg(w.gated::int || coalesce(':' || array_to_string(w.gates, ':'), ''), ',') AS hows
FROM ({window}) w

-- :gatesOfHeads
{gate} WHERE num = ANY (ARRAY(SELECT DISTINCT unnest(w.gates) FROM ({window}) w))

-- :inPlace  those of them that are looked at as a whole
{liveJob}, w.place, w.rank AS turn, NULL::bigint AS run_first, NULL::bigint AS run_last, p.state AS parent,
  p.waiting, p.doomed, {notDone}
FROM ({window}) w CROSS JOIN LATERAL (SELECT * FROM {schema}.job k WHERE k.seq = w.seq OFFSET 0) j {asParent}
WHERE w.special OR $5 ORDER BY w.rank, j.seq

-- :waitingFor
WITH found AS MATERIALIZED (
  SELECT w.seq, w.n FROM {schema}.waiter w WHERE w.key = $1 AND w.n > $2 ORDER BY w.n LIMIT $3
)
{jobAndN} JOIN found ON j.seq BETWEEN found.seq AND found.seq ORDER BY found.n {lockJob}

-- :held
{job} JOIN {schema}.lease l ON l.token = $1
JOIN LATERAL generate_series(1, cardinality(l.spans), 2) s (i) ON j.seq BETWEEN l.spans[s.i] AND l.spans[s.i + 1]
WHERE j.state = 0 {inOrder} {lockJob}

-- :leaseOf
SELECT j.id, l.token, l.worker FROM {schema}.job j JOIN {schema}.lease l ON EXISTS (
  SELECT 1 FROM generate_series(1, cardinality(l.spans), 2) s (i) WHERE j.seq BETWEEN l.spans[s.i] AND l.spans[s.i + 1]
) WHERE j.id = ANY ($1::text[]) AND j.state = 0

-- :workers  the newest row of each counts
SELECT DISTINCT ON (id) id, num, expires_at, latest FROM {schema}.worker WHERE id = ANY ($1::text[]) ORDER BY id, num DESC

-- :lapsed
SELECT id, num, expires_at, latest FROM (
  SELECT DISTINCT ON (id) id, num, expires_at, latest FROM {schema}.worker ORDER BY id, num DESC
) w WHERE expires_at <= $1 ORDER BY id LIMIT 100

-- :leases
SELECT token, worker, at, undone, spans FROM {schema}.lease WHERE worker = ANY ($1::text[]) ORDER BY token || '' {lock}

-- :lapsedLeases
SELECT token, worker, at, undone, spans FROM {schema}.lease
WHERE worker IN (
  SELECT id FROM (SELECT DISTINCT ON (id) id, expires_at FROM {schema}.worker ORDER BY id, num DESC) w
  WHERE expires_at <= $1 ORDER BY id LIMIT 100
) ORDER BY token || '' {lock}

-- :barrier  see exchange.sql
SELECT pg_advisory_xact_lock({barrier})

-- :counts
SELECT kind, sum(pending)::bigint AS pending, sum(running)::bigint AS running, sum(completed)::bigint AS completed,
  sum(dead)::bigint AS dead, sum(cancelled)::bigint AS cancelled
FROM (
  SELECT kind, pending, running, completed, dead, cancelled FROM {schema}.tallied
  UNION ALL SELECT kind, pending, running, completed, dead, cancelled FROM {schema}.tally
) t GROUP BY kind

-- :lines
SELECT num, queue, lane, name, served, tag, back_tag FROM {schema}.line ORDER BY num

-- :gate
SELECT num, scope, owner, name, parked, active, due, fading, state FROM {schema}.gate

-- :gates
SELECT g.num, g.scope, g.owner, g.name, g.parked, g.active, g.due, g.fading, g.state
FROM json_to_recordset($1) AS r (scope text, owner text, name text) CROSS JOIN LATERAL (
  SELECT * FROM {schema}.gate i WHERE i.scope = r.scope AND i.owner = r.owner AND i.name = r.name OFFSET 0
) g

-- :gatesByNum
{gate} WHERE num = ANY ($1::bigint[])

-- :activeGates
{gate} WHERE active AND scope IN ('queue', 'job') ORDER BY num + 0

-- :gateDue
{gate} WHERE due IS NOT NULL AND (due, num) > ($1::float8, $2::bigint) ORDER BY due, num LIMIT $3

-- :gateFading
{gate} WHERE fading IS NOT NULL AND (fading, num) > ($1::float8, $2::bigint) ORDER BY fading, num LIMIT $3

-- :linksOf
SELECT l.parent, l.child, l.fan, l.ended_at, l.result, l.state
FROM json_to_recordset($1) AS r (parent bigint, child text)
CROSS JOIN LATERAL (SELECT * FROM {schema}.link k WHERE k.parent = r.parent AND k.child = r.child OFFSET 0) l

-- :placesOf
SELECT id, seq FROM {schema}.job WHERE id = ANY ($1::text[])

-- :linksAfter
SELECT parent, child, fan, ended_at, result, state FROM {schema}.link WHERE parent = $1 AND child > $2 ORDER BY child LIMIT $3

-- :openSteps
SELECT seq, state FROM {schema}.step WHERE seq = ANY ($1::bigint[]) AND open ORDER BY n

-- :doomed
SELECT j.id FROM {schema}.parent p CROSS JOIN LATERAL (SELECT k.id FROM {schema}.job k WHERE k.seq = p.seq OFFSET 0) j
WHERE p.doomed IS NOT NULL ORDER BY p.seq LIMIT 100

-- :keysOfRunning
SELECT k.name, j.rest FROM {schema}.lease l
JOIN LATERAL generate_series(1, cardinality(l.spans), 2) s (i) ON true
JOIN {schema}.job j ON j.seq BETWEEN l.spans[s.i] AND l.spans[s.i + 1] AND j.state = 0 AND j.special
JOIN {schema}.kind k ON k.num = j.kind

-- :holders
SELECT key, rank, n, state FROM {schema}.holder WHERE key = ANY ($1::text[])

-- :holdersByRank
SELECT key, rank, n, state FROM {schema}.holder WHERE (rank, n) > ($1::float8, $2::bigint) ORDER BY rank, n LIMIT $3

-- :guards
SELECT key, rank, n, state FROM {schema}.guard WHERE key = ANY ($1::text[])

-- :guardsByRank
SELECT key, rank, n, state FROM {schema}.guard WHERE rank IS NOT NULL AND (rank, n) > ($1::float8, $2::bigint) ORDER BY rank, n LIMIT $3

-- :schedules
SELECT name AS key, look, told, n, state FROM {schema}.schedule WHERE name = ANY ($1::text[])

-- :schedulesByLook
SELECT name AS key, look, told, n, state FROM {schema}.schedule
WHERE look >= $1::float8 AND (look, n) > ($1::float8, $2::float8) ORDER BY look, n LIMIT $3

-- :schedulesByTold
SELECT name AS key, look, told, n, state FROM {schema}.schedule
WHERE told >= $1::float8 AND (told, n) > ($1::float8, $2::float8) ORDER BY told, n LIMIT $3

-- :mail
SELECT key, line, n, expires_at, spreading, state FROM {schema}.mail WHERE key = ANY ($1::text[])

-- :mailLine
SELECT key, line, n, expires_at, spreading, state FROM {schema}.mail WHERE line = $1 AND n > $2 ORDER BY n LIMIT $3

-- :mailTime
SELECT key, line, n, expires_at, spreading, state FROM {schema}.mail
WHERE (expires_at, n) > ($1::float8, $2::bigint) ORDER BY expires_at, n LIMIT $3

-- :spreading
SELECT key, line, n, expires_at, spreading, state FROM {schema}.mail WHERE spreading AND n > $1 ORDER BY n LIMIT $2
