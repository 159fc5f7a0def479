-- :gate
SELECT num, pending, parked, running, lines, active, due_at AS dueAt, idle_at AS idleAt, declared, chosen, memory
FROM millrace_gate WHERE scope = ? AND owner = ? AND name = ?

-- :addGate
INSERT INTO millrace_gate (scope, owner, name) VALUES (?, ?, ?) RETURNING num

-- :keepOften  what every job of a gate changes
UPDATE millrace_gate SET pending = ?, running = ?, lines = ?, memory = ? WHERE num = ?

-- :keepSeldom
UPDATE millrace_gate SET parked = ?, active = ?, due_at = ?, idle_at = ?, declared = ?, chosen = ? WHERE num = ?

-- :forgetGate
DELETE FROM millrace_gate WHERE num = ?

-- :due
SELECT scope, owner, name FROM millrace_gate WHERE due_at <= ? ORDER BY due_at, num LIMIT ?

-- :dueLater
SELECT scope, owner, name FROM millrace_gate WHERE (due_at, num) > (?, ?) ORDER BY due_at, num LIMIT ?

-- :idle
SELECT scope, owner, name FROM millrace_gate WHERE idle_at <= ? ORDER BY idle_at LIMIT ?

-- :nextDue
SELECT scope, owner, name, due_at AS dueAt FROM millrace_gate WHERE due_at IS NOT NULL ORDER BY due_at LIMIT ?

-- :lookAgain
UPDATE millrace_gate SET due_at = ? WHERE scope = ? AND owner = ? AND parked > 0

-- :gates  of one scope, by owner and name
SELECT owner, name FROM millrace_gate WHERE scope = ? AND (owner, name) > (?, ?) ORDER BY owner, name LIMIT ?

-- :lines  of a lane, as they came
SELECT l.id AS num, q.name AS queue, l.lane, l.name, l.served, l.tag, l.back_tag AS backTag, l.jobs AS size
FROM millrace_line l JOIN millrace_queue q ON q.id = l.queue WHERE l.queue = ? AND l.lane = ? ORDER BY l.id

-- :addLine
INSERT INTO millrace_line (queue, lane, name) VALUES (?, ?, ?) RETURNING id

-- :keepLine
UPDATE millrace_line SET served = ?, tag = ?, back_tag = ?, jobs = ? WHERE id = ?

-- :heads
SELECT j.seq, j.id, j.kind, j.input, j.attempt, j.crashes, j.created_at, j.ready_at, j.retry_delay, j.overrides, j.tags, j.metadata, j.stepped, j.cancel_reason, j.grp, j.key, j.gated, t.rank
FROM millrace_turn t JOIN millrace_job j ON j.seq = t.seq
WHERE t.line = ? ORDER BY t.rank, t.seq LIMIT ?

-- :leaveHeads
DELETE FROM millrace_turn WHERE line = ? AND (rank, seq) <= (?, ?)

-- :stand
INSERT INTO millrace_turn (line, rank, seq) VALUES (?, ?, ?)

-- :setTurn
UPDATE millrace_job SET turn = ? WHERE seq = ?

-- :remove
DELETE FROM millrace_turn WHERE line = ? AND rank = ? AND seq = ?

-- :subjects  what traffic control needs to know of jobs at these positions
SELECT seq, kind, grp, key, gated FROM millrace_job WHERE seq BETWEEN ? AND ? AND (grp IS NOT NULL OR key IS NOT NULL)

-- :subject
SELECT seq, kind, grp, key, gated, turn FROM millrace_job WHERE seq = ?

-- :concernQueue
UPDATE millrace_queue SET traffic = 1 WHERE name = ?

-- :concernJob
UPDATE millrace_queue SET traffic = 1 WHERE id IN (SELECT queue FROM millrace_kind WHERE name = ?)

-- :runningOfQueue
SELECT t.kind, t.n FROM millrace_tally t JOIN millrace_kind k ON k.id = t.kind JOIN millrace_queue q ON q.id = k.queue
WHERE t.what = 'running' AND q.name = ?

-- :runningOfJob
SELECT t.kind, t.n FROM millrace_tally t JOIN millrace_kind k ON k.id = t.kind WHERE t.what = 'running' AND k.name = ?

-- :firstParked
SELECT seq FROM millrace_turn WHERE line = ? AND rank = ? ORDER BY seq LIMIT 1

-- :pendingByLane
SELECT k.lane, sum(t.n) AS n FROM millrace_kind k JOIN millrace_tally t ON t.kind = k.id AND t.what = 'pending'
WHERE k.queue = ? GROUP BY k.lane

-- :queuesOfJob
SELECT DISTINCT q.name FROM millrace_kind k JOIN millrace_queue q ON q.id = k.queue WHERE k.name = ?

-- :activeNames
SELECT name FROM millrace_gate WHERE scope = ? AND owner = '' AND active = 1
