-- :parent  a job that is to have children
SELECT j.seq, j.state, coalesce(p.waiting, 0) AS waiting, j.family IS NOT NULL AS known
FROM millrace_job j LEFT JOIN millrace_parent p ON p.seq = j.seq WHERE j.id = ?

-- :isLinked
SELECT 1 FROM millrace_link WHERE parent = ? AND child = ?

-- :link
INSERT INTO millrace_link (parent, child, name, node, on_failure, wakes, undo, fan) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- :lessFailed  those of its steps stand in its way no more
UPDATE millrace_parent SET failed = failed - (
  SELECT count(*) FROM millrace_link l
  WHERE l.parent = millrace_parent.seq AND l.fan IS NOT NULL AND l.state <> 5 AND l.on_failure IN ('fail', 'compensate')
) WHERE seq = ?

-- :forgetFans  children of its steps
DELETE FROM millrace_link WHERE parent = ? AND fan IS NOT NULL

-- :withoutFans
UPDATE millrace_parent SET children = children - ?, fanned = 0, closed = NULL WHERE seq = ?

-- :addParent
INSERT INTO millrace_parent (seq, waiting, open) VALUES (?, ?, ?)

-- :addChildren
INSERT INTO millrace_parent (seq, children, waiting, fanned) VALUES (?, ?, ?, ?)
ON CONFLICT (seq) DO UPDATE SET children = children + excluded.children, waiting = waiting + excluded.waiting, fanned = fanned + excluded.fanned

-- :becomeParent  a job that got its first child while it ran
UPDATE millrace_job SET family = ? WHERE seq = ? AND family IS NULL

-- :childrenOf  who the parents of these jobs are
SELECT seq, id, family, parent FROM millrace_job
WHERE seq BETWEEN ? AND ? AND (parent IS NOT NULL OR family IS NOT NULL)

-- :endSilently  links of jobs that completed with nothing to tell, each of one parent
UPDATE millrace_link SET state = 5, ended_at = ? FROM millrace_job j
WHERE j.seq BETWEEN ? AND ? AND millrace_link.parent = j.parent AND millrace_link.child = j.id
AND millrace_link.state IS NULL
RETURNING parent, fan

-- :end  a link ends once
UPDATE millrace_link SET state = ?, ended_at = ?, result = ?, failure = ?
WHERE parent = ? AND child = ? AND state IS NULL
RETURNING on_failure, wakes, fan

-- :lessWaiting
UPDATE millrace_parent SET waiting = waiting - ?, fanned = fanned - ?, failed = failed + ? WHERE seq = ? RETURNING waiting

-- :isLeased
SELECT 1 FROM millrace_worker w JOIN millrace_lease l ON l.worker = w.num AND l.seq = ?

-- :alarm  a death wakes its parent once
UPDATE millrace_parent SET alarmed = 1 WHERE seq = ? AND alarmed = 0

-- :job
SELECT seq, id, kind, state, family, parent, failure, cause, cancel_reason AS reason FROM millrace_job WHERE seq = ?

-- :endOf
SELECT state, on_failure, fan FROM millrace_link WHERE parent = ? AND child = ?

-- :reopen
UPDATE millrace_link SET state = NULL, ended_at = NULL, result = NULL, failure = NULL, undone = 0 WHERE parent = ? AND child = ?

-- :compensated
UPDATE millrace_parent SET compensated = 1 WHERE seq = ?

-- :completedAt  whether a child completed then, and not again since
SELECT 1 FROM millrace_job j JOIN millrace_link l ON l.parent = j.seq
WHERE j.id = ? AND l.child = ? AND l.state = 5 AND l.ended_at = ?

-- :isUndone  this time that the child completed
SELECT 1 FROM millrace_link WHERE parent = ? AND child = ? AND undone = 1 AND ended_at = ?

-- :undo  not if the child was replayed since, which is another time
UPDATE millrace_link SET undone = 1 WHERE parent = ? AND child = ? AND state = 5 AND ended_at = ?

-- :moreWaiting
UPDATE millrace_parent SET waiting = waiting + 1, failed = max(0, failed - ?) WHERE seq = ?

-- :moreFanned
UPDATE millrace_parent SET fanned = fanned + 1, replays = replays + 1, failed = max(0, failed - ?) WHERE seq = ?

-- :revive
UPDATE millrace_job SET
  state = 4, attempt = 0, crashes = 0, finished_at = NULL, expires_at = NULL, cause = NULL, due_at = NULL
WHERE seq = ?

-- :startOver
UPDATE millrace_parent SET doomed = NULL WHERE seq = ? RETURNING waiting, open

-- :seal
UPDATE millrace_parent SET open = 0, waiting = waiting - 1 WHERE seq = ? AND open = 1 RETURNING waiting, alarmed

-- :waitOn  no longer only until a certain time
UPDATE millrace_job SET state = 4, due_at = NULL WHERE seq = ?

-- :doom
UPDATE millrace_parent SET doomed = '' WHERE seq = ? AND waiting + fanned > 0

-- :isWaiting
SELECT 1 FROM millrace_parent WHERE seq = ? AND waiting > 0

-- :hasOpenChildren
SELECT 1 FROM millrace_parent WHERE seq = ? AND waiting + fanned > 0

-- :isFanOpen
SELECT 1 FROM millrace_link INDEXED BY millrace_link_open WHERE parent = ? AND fan = ? AND state IS NULL LIMIT 1

-- :closeFan
UPDATE millrace_parent SET closed = coalesce(closed, '') || ' ' || ? || ' ' WHERE seq = ?

-- :isFanClosed
SELECT 1 FROM millrace_parent WHERE seq = ? AND instr(closed, ' ' || ? || ' ') > 0

-- :doomed
SELECT p.seq, p.doomed, j.cancel_reason AS reason FROM millrace_parent p JOIN millrace_job j ON j.seq = p.seq
WHERE p.doomed IS NOT NULL LIMIT 1

-- :doomedChildren
SELECT child, state FROM millrace_link WHERE parent = ? AND child > ? ORDER BY child LIMIT ?

-- :doomOn
UPDATE millrace_parent SET doomed = ? WHERE seq = ?

-- :parentOf  a position may be another job's by now; its link says whether it is the one
SELECT j.id, j.family, j.state FROM millrace_link l JOIN millrace_job j ON j.seq = l.parent WHERE l.parent = ? AND l.child = ?

-- :family
SELECT children, waiting, fanned, failed, open, alarmed, replays, compensated FROM millrace_parent WHERE seq = ?

-- :links
SELECT l.child, l.name, l.node, l.on_failure, l.state, l.ended_at, l.result, l.failure, l.undo, l.fan, l.undone FROM millrace_job j JOIN millrace_link l ON l.parent = j.seq
WHERE j.id = ? AND l.child > ? ORDER BY l.child LIMIT ?

-- :untimed  blocked jobs that no time wakes, from this one on, and whether they wait for children
SELECT b.seq, p.open = 0 AND (
  p.waiting <> 0 OR p.fanned <> 0 OR NOT EXISTS (SELECT 1 FROM millrace_wait w WHERE w.seq = b.seq)
) AS isParent
FROM (
  SELECT seq FROM millrace_job
  WHERE state = 4 AND coalesce(due_at, 9007199254740991) = 9007199254740991 AND seq > ? ORDER BY seq LIMIT ?
) b LEFT JOIN millrace_parent p ON p.seq = b.seq

-- :openChild  one that has not ended, as far as its parent knows, and what it really is
SELECT l.child, j.state, j.result, j.failure
FROM millrace_link l INDEXED BY millrace_link_open LEFT JOIN millrace_job j ON j.id = l.child
WHERE l.parent = ? AND l.state IS NULL LIMIT 1

-- :waitForNothing
UPDATE millrace_parent SET waiting = 0, fanned = 0 WHERE seq = ?
