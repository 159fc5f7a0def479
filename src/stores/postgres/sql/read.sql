-- What readers ask.

-- :trail
SELECT j.seq, j.rest FROM {schema}.job j WHERE j.id = $1

-- :logs
SELECT l.line FROM {schema}.log l JOIN {schema}.job j ON j.seq = l.seq WHERE j.id = $1 ORDER BY l.n

-- :steps
SELECT s.state FROM {schema}.step s JOIN {schema}.job j ON j.seq = s.seq WHERE j.id = $1 ORDER BY s.n

-- :counts
SELECT q.name AS queue, k.name, k.lane, t.*
FROM {schema}.kind k JOIN {schema}.queue q ON q.num = k.queue
JOIN (
  SELECT kind, sum(scheduled)::bigint AS scheduled, sum(pending)::bigint AS pending, sum(running)::bigint AS running,
    sum(retrying)::bigint AS retrying, sum(blocked)::bigint AS blocked, sum(completed)::bigint AS completed,
    sum(dead)::bigint AS dead, sum(cancelled)::bigint AS cancelled, sum(total_enqueued)::bigint AS total_enqueued,
    sum(total_completed)::bigint AS total_completed, sum(total_failed)::bigint AS total_failed,
    sum(total_retried)::bigint AS total_retried, sum(total_dead)::bigint AS total_dead,
    sum(total_cancelled)::bigint AS total_cancelled, sum(total_crashed)::bigint AS total_crashed,
    sum(total_pruned)::bigint AS total_pruned, sum(total_shed)::bigint AS total_shed,
    sum(total_deferred)::bigint AS total_deferred
  FROM (SELECT * FROM {schema}.tallied UNION ALL SELECT * FROM {schema}.tally) a GROUP BY kind
) t ON t.kind = k.num ORDER BY k.num

-- :paused
SELECT name FROM {schema}.queue WHERE paused ORDER BY name

-- :causes
SELECT cause, name, message, count, first_at, last_at, sample FROM {schema}.cause ORDER BY last_at DESC, cause LIMIT $1

-- :gates
SELECT num, scope, owner, name, parked, active, due, fading, state FROM {schema}.gate
WHERE scope = $1 AND ($2::text IS NULL OR owner = $2) AND ($3::text[] IS NULL OR name = ANY ($3::text[])) AND num > $4
  AND (active OR scope NOT IN ('queue', 'job'))
ORDER BY num LIMIT $5

-- :schedules
SELECT state FROM {schema}.schedule WHERE name > $1 AND ($2::text[] IS NULL OR name = ANY ($2::text[])) ORDER BY name LIMIT $3
