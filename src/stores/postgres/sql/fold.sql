-- Adds up what `tally` has gathered. One statement, so that a reader sees each change once: here or there. Rows that others
-- are folding are left to them.
WITH gone AS (
  DELETE FROM {schema}.tally t
  WHERE t.ctid = ANY (ARRAY(SELECT u.ctid FROM {schema}.tally u LIMIT 20000 FOR UPDATE SKIP LOCKED))
  RETURNING t.*
), sums AS (
  SELECT kind,
    coalesce(sum(pending), 0) AS pending, coalesce(sum(scheduled), 0) AS scheduled,
    coalesce(sum(running), 0) AS running, coalesce(sum(retrying), 0) AS retrying,
    coalesce(sum(blocked), 0) AS blocked, coalesce(sum(completed), 0) AS completed,
    coalesce(sum(dead), 0) AS dead, coalesce(sum(cancelled), 0) AS cancelled,
    coalesce(sum(total_enqueued), 0) AS total_enqueued, coalesce(sum(total_completed), 0) AS total_completed,
    coalesce(sum(total_failed), 0) AS total_failed, coalesce(sum(total_retried), 0) AS total_retried,
    coalesce(sum(total_dead), 0) AS total_dead, coalesce(sum(total_cancelled), 0) AS total_cancelled,
    coalesce(sum(total_crashed), 0) AS total_crashed, coalesce(sum(total_pruned), 0) AS total_pruned,
    coalesce(sum(total_shed), 0) AS total_shed, coalesce(sum(total_deferred), 0) AS total_deferred
  FROM gone GROUP BY kind
)
INSERT INTO {schema}.tallied AS t SELECT * FROM sums ORDER BY kind
ON CONFLICT (kind) DO UPDATE SET
  pending = t.pending + excluded.pending, scheduled = t.scheduled + excluded.scheduled,
  running = t.running + excluded.running, retrying = t.retrying + excluded.retrying,
  blocked = t.blocked + excluded.blocked, completed = t.completed + excluded.completed,
  dead = t.dead + excluded.dead, cancelled = t.cancelled + excluded.cancelled,
  total_enqueued = t.total_enqueued + excluded.total_enqueued,
  total_completed = t.total_completed + excluded.total_completed,
  total_failed = t.total_failed + excluded.total_failed, total_retried = t.total_retried + excluded.total_retried,
  total_dead = t.total_dead + excluded.total_dead, total_cancelled = t.total_cancelled + excluded.total_cancelled,
  total_crashed = t.total_crashed + excluded.total_crashed, total_pruned = t.total_pruned + excluded.total_pruned,
  total_shed = t.total_shed + excluded.total_shed, total_deferred = t.total_deferred + excluded.total_deferred
