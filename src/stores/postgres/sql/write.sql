-- What the desk writes: one statement for all rows of a table. Rows come as JSON.

-- :admitted
DELETE FROM {schema}.arrival WHERE n = ANY ($1::bigint[])

-- :number
UPDATE {schema}.number SET last = $1

-- :queues
UPDATE {schema}.queue q SET paused = r.paused, traffic = r.traffic
FROM json_to_recordset($1) AS r (num int, paused boolean, traffic boolean) WHERE q.num = r.num

-- :tally
INSERT INTO {schema}.tally (kind, pending, scheduled, running, retrying, blocked, completed, dead, cancelled,
  total_enqueued, total_completed, total_failed, total_retried, total_dead, total_cancelled, total_crashed, total_pruned,
  total_shed, total_deferred)
SELECT kind, pending, scheduled, running, retrying, blocked, completed, dead, cancelled,
  total_enqueued, total_completed, total_failed, total_retried, total_dead, total_cancelled, total_crashed, total_pruned,
  total_shed, total_deferred
FROM json_to_recordset($1) AS r (kind int, pending int, scheduled int, running int, retrying int, blocked int,
  completed int, dead int, cancelled int, total_enqueued int, total_completed int, total_failed int, total_retried int,
  total_dead int, total_cancelled int, total_crashed int, total_pruned int, total_shed int, total_deferred int)

-- :addJobs  lists of numbers, and of texts with a separator; a list that no job needs is null, and so is one that is the same for
-- all: then the last value stands for it
INSERT INTO {schema}.job (seq, created_at, kind, max_attempts, max_crashes, state, special, id, input, rank,
  finished_at, child_of, overrides, tags, search, metadata, rest)
SELECT a.seq, $2, a.kind, a.max_attempts, a.max_crashes, a.state, a.special, a.id, coalesce(a.input, ''), a.rank,
  a.finished_at, a.child_of, a.overrides, a.tags, a.search, a.metadata, coalesce(a.rest, $19)
FROM (
  SELECT unnest($1::bigint[]) AS seq, unnest($3::int[]) AS kind, unnest($4::smallint[]) AS max_attempts,
    unnest($5::smallint[]) AS max_crashes, unnest($6::smallint[]) AS state, unnest($7::boolean[]) AS special,
    unnest(string_to_array($8, $17)) AS id, unnest(string_to_array($9, $17)) AS input, unnest($10::float8[]) AS rank,
    unnest($11::float8[]) AS finished_at,
    unnest($12::bigint[]) AS child_of, unnest(string_to_array($13, $17, '')) AS overrides,
    unnest(string_to_array($14, $17, '')) AS tags, unnest(string_to_array($15, $17, '')) AS search,
    unnest(string_to_array($16, $17, '')) AS metadata, unnest(string_to_array($18, $17, '')) AS rest
) a

-- :changeJobs
UPDATE {schema}.job j SET kind = r.kind, state = r.state, special = r.special, rank = r.rank, finished_at = r.finished_at,
  child_of = r.child_of, max_attempts = r.max_attempts, max_crashes = r.max_crashes, input = r.input,
  overrides = r.overrides, tags = r.tags, search = r.search, metadata = r.metadata, rest = r.rest
FROM json_to_recordset($1) AS r (seq bigint, kind int, state smallint, special boolean, rank float8, finished_at float8,
  child_of bigint, max_attempts smallint, max_crashes smallint, input text, overrides text, tags text, search text,
  metadata text, rest text)
WHERE j.seq BETWEEN r.seq AND r.seq

-- :unmark
DELETE FROM {schema}.mark m USING json_to_recordset($1) AS r (mark text, state smallint, rank float8, seq bigint)
WHERE m.mark = ANY (ARRAY[r.mark]) AND m.state = ANY (ARRAY[r.state]) AND m.rank = ANY (ARRAY[r.rank]) AND m.seq BETWEEN r.seq AND r.seq

-- :mark
INSERT INTO {schema}.mark (mark, state, rank, seq)
SELECT mark, state, rank, seq FROM json_to_recordset($1) AS r (mark text, state smallint, rank float8, seq bigint)

-- :removeJobs
DELETE FROM {schema}.job WHERE seq = ANY ($1::bigint[])

-- :removeRuns
DELETE FROM {schema}.ready r USING json_to_recordset($1) AS g (queue int, lane smallint, last bigint)
WHERE r.queue = ANY (ARRAY[g.queue]) AND r.lane = ANY (ARRAY[g.lane]) AND r.last BETWEEN g.last AND g.last

-- :addRuns  the kind, and when they were created, of a run of new jobs that are of one; of others the server looks
INSERT INTO {schema}.ready (queue, lane, first, last, kind, created_at, kinds)
SELECT r.queue, r.lane, r.first, r.last, coalesce(r.kind, j.kind), coalesce(r.created_at, j.created_at), j.kinds
FROM json_to_recordset($1) AS r (queue int, lane smallint, first bigint, last bigint, kind int, created_at bigint)
CROSS JOIN LATERAL (
  SELECT CASE WHEN min(j.kind) = max(j.kind) THEN min(j.kind) ELSE 0 END AS kind,
    CASE WHEN min(j.created_at) = max(j.created_at) THEN min(j.created_at) END AS created_at,
    CASE WHEN min(j.kind) <> max(j.kind) AND count(*) >= 16 THEN array_agg(DISTINCT j.kind) END AS kinds
  FROM {schema}.job j WHERE r.kind IS NULL AND j.seq BETWEEN r.first AND r.last
) j

-- :cutDone
SELECT {schema}.cut_done_{set}($1::bigint[])

-- :wait  as above; the gates of each as a text
INSERT INTO {schema}.waiting (seq, place, kind, rank, gated, special, gates)
SELECT a.seq, a.place, a.kind, a.rank, a.gated, a.special, string_to_array(a.gates, ':')::bigint[]
FROM (
  SELECT unnest($1::bigint[]) AS seq, unnest($2::bigint[]) AS place, unnest($3::int[]) AS kind, unnest($4::float8[]) AS rank,
    unnest($5::boolean[]) AS gated, unnest($6::boolean[]) AS special, unnest(string_to_array($7, ',', '')) AS gates
) a

-- :waitsElsewhere
UPDATE {schema}.waiting w SET place = r.place, rank = r.rank
FROM json_to_recordset($1) AS r (seq bigint, place bigint, rank float8) WHERE w.seq BETWEEN r.seq AND r.seq

-- :startWaiting
SELECT * FROM {schema}.tell_waiting_{set}($1::bigint[], $2)

-- :end
SELECT {schema}.end_exactly_{set}($1, $2::bigint[], $3::bigint[], $4)

-- :waitsNoMore
DELETE FROM {schema}.waiting WHERE seq = ANY ($1::bigint[])

-- :workers
INSERT INTO {schema}.worker (id, expires_at, latest)
SELECT id, expires_at, latest FROM json_to_recordset($1) AS r (id text, expires_at bigint, latest text)

-- :forgetWorkers  not one that has come back meanwhile
DELETE FROM {schema}.worker w USING json_to_recordset($1) AS g (id text, num bigint) WHERE w.id = g.id AND w.num <= g.num

-- :leases
INSERT INTO {schema}.lease (token, worker, at, undone, spans)
SELECT token, worker, at, undone, spans::bigint[]
FROM json_to_recordset($1) AS r (token text, worker text, at bigint, undone int, spans text)
ON CONFLICT (token) DO UPDATE SET undone = excluded.undone, spans = excluded.spans

-- :endLeases
DELETE FROM {schema}.lease WHERE token = ANY ($1::text[])

-- :lines
INSERT INTO {schema}.line (num, queue, lane, name, served, tag, back_tag)
SELECT num, queue, lane, name, served, tag, back_tag
FROM json_to_recordset($1) AS r (num bigint, queue int, lane smallint, name text, served float8, tag float8, back_tag float8)
ON CONFLICT (num) DO UPDATE SET served = excluded.served, tag = excluded.tag, back_tag = excluded.back_tag

-- :lookAgain
UPDATE {schema}.gate SET due = $3 WHERE scope = $1 AND owner = $2 AND parked > 0

-- :gates
INSERT INTO {schema}.gate (num, scope, owner, name, parked, active, due, fading, state)
SELECT num, scope, owner, name, parked, active, due, fading, state
FROM json_to_recordset($1) AS r (num bigint, scope text, owner text, name text, parked int, active boolean, due float8,
  fading float8, state text)
ON CONFLICT (num) DO UPDATE SET parked = excluded.parked, active = excluded.active, due = excluded.due,
  fading = excluded.fading, state = excluded.state

-- :removeGates
DELETE FROM {schema}.gate WHERE num = ANY ($1::bigint[])

-- :parents
INSERT INTO {schema}.parent (seq, waiting, doomed, state)
SELECT seq, waiting, doomed, state FROM json_to_recordset($1) AS r (seq bigint, waiting int, doomed text, state text)
ON CONFLICT (seq) DO UPDATE SET waiting = excluded.waiting, doomed = excluded.doomed, state = excluded.state

-- :removeParents
DELETE FROM {schema}.parent WHERE seq = ANY ($1::bigint[])

-- :forgetFans
DELETE FROM {schema}.link WHERE parent = ANY ($1::bigint[]) AND fan IS NOT NULL

-- :addLinks  as jobs are added
INSERT INTO {schema}.link (parent, child, fan, ended_at, result, state)
SELECT a.parent, a.child, a.fan, a.ended_at, a.result, coalesce(a.state, $8)
FROM (
  SELECT unnest($1::bigint[]) AS parent, unnest(string_to_array($2, $7)) AS child, unnest(string_to_array($3, $7, '')) AS fan,
    unnest($4::bigint[]) AS ended_at, unnest(string_to_array($5, $7, '')) AS result, unnest(string_to_array($6, $7)) AS state
) a

-- :links
INSERT INTO {schema}.link (parent, child, fan, ended_at, result, state)
SELECT parent, child, fan, ended_at, result, state
FROM json_to_recordset($1) AS r (parent bigint, child text, fan text, ended_at bigint, result text, state text)
ON CONFLICT (parent, child)
DO UPDATE SET fan = excluded.fan, ended_at = excluded.ended_at, result = excluded.result, state = excluded.state

-- :removeLinks
DELETE FROM {schema}.link WHERE parent = ANY ($1::bigint[])

-- :steps  one that is there already keeps its place
INSERT INTO {schema}.step (seq, name, n, open, state)
SELECT seq, name, n, open, state
FROM json_to_recordset($1) AS r (seq bigint, name text, n bigint, open boolean, state text)
ON CONFLICT (seq, name) DO UPDATE SET open = excluded.open, state = excluded.state

-- :removeSteps
DELETE FROM {schema}.step WHERE seq = ANY ($1::bigint[])

-- :logs
INSERT INTO {schema}.log (seq, n, line) SELECT seq, n, line FROM json_to_recordset($1) AS r (seq bigint, n bigint, line text)

-- :trimLogs  the last so many stay
DELETE FROM {schema}.log l USING (
  SELECT u.seq, (
    SELECT o.n FROM {schema}.log o WHERE o.seq = u.seq ORDER BY o.n DESC OFFSET $2 LIMIT 1
  ) AS n FROM unnest($1::bigint[]) u (seq)
) old WHERE l.seq = old.seq AND l.n <= old.n

-- :removeLogs
DELETE FROM {schema}.log WHERE seq = ANY ($1::bigint[])

-- :waiters
INSERT INTO {schema}.waiter (key, n, seq) SELECT key, n, seq FROM json_to_recordset($1) AS r (key text, n bigint, seq bigint)
ON CONFLICT DO NOTHING

-- :removeWaiters
DELETE FROM {schema}.waiter w USING json_to_recordset($1) AS g (key text, n bigint) WHERE w.key = g.key AND w.n = g.n

-- :died
INSERT INTO {schema}.cause AS c (cause, name, message, first_at, last_at, sample, count)
SELECT cause, name, message, first_at, last_at, sample, count
FROM json_to_recordset($1) AS r (cause text, name text, message text, first_at bigint, last_at bigint, sample text, count int)
ON CONFLICT (cause) DO UPDATE SET message = excluded.message, last_at = excluded.last_at, sample = excluded.sample,
  count = c.count + excluded.count

-- :rose
UPDATE {schema}.cause c SET count = c.count - r.count
FROM json_to_recordset($1) AS r (cause text, count int) WHERE c.cause = r.cause

-- :forgetCauses
DELETE FROM {schema}.cause WHERE count <= 0

-- :holders
INSERT INTO {schema}.holder (key, rank, n, state)
SELECT key, rank, n, state FROM json_to_recordset($1) AS r (key text, rank float8, n bigint, state text)
ON CONFLICT (key) DO UPDATE SET rank = excluded.rank, n = excluded.n, state = excluded.state

-- :removeHolders
DELETE FROM {schema}.holder WHERE key = ANY ($1::text[])

-- :guards
INSERT INTO {schema}.guard (key, rank, n, state)
SELECT key, rank, n, state FROM json_to_recordset($1) AS r (key text, rank float8, n bigint, state text)
ON CONFLICT (key) DO UPDATE SET rank = excluded.rank, n = excluded.n, state = excluded.state

-- :removeGuards
DELETE FROM {schema}.guard WHERE key = ANY ($1::text[])

-- :schedules
INSERT INTO {schema}.schedule (name, look, told, n, state)
SELECT key, look, told, n, state FROM json_to_recordset($1) AS r (key text, look float8, told float8, n bigint, state text)
ON CONFLICT (name) DO UPDATE SET look = excluded.look, told = excluded.told, n = excluded.n, state = excluded.state

-- :removeSchedules
DELETE FROM {schema}.schedule WHERE name = ANY ($1::text[])

-- :mail
INSERT INTO {schema}.mail (key, line, n, expires_at, spreading, state)
SELECT key, line, n, expires_at, spreading, state
FROM json_to_recordset($1) AS r (key text, line text, n bigint, expires_at float8, spreading boolean, state text)
ON CONFLICT (key) DO UPDATE SET expires_at = excluded.expires_at, spreading = excluded.spreading, state = excluded.state

-- :removeMail
DELETE FROM {schema}.mail WHERE key = ANY ($1::text[])
