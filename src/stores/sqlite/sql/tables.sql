-- :queue
SELECT id, paused, traffic FROM millrace_queue WHERE name = ?

-- :queueName
SELECT name FROM millrace_queue WHERE id = ?

-- :addQueue
INSERT INTO millrace_queue (name) VALUES (?) ON CONFLICT (name) DO UPDATE SET name = name RETURNING id

-- :pause
UPDATE millrace_queue SET paused = ? WHERE name = ?

-- :kind
SELECT k.id, k.queue AS queueId, q.name AS queue, k.lane, k.name, k.max_attempts AS maxAttempts, k.max_crashes AS maxCrashes, k.traits
FROM millrace_kind k JOIN millrace_queue q ON q.id = k.queue WHERE k.id = ?

-- :addKind
INSERT INTO millrace_kind (queue, lane, name, max_attempts, max_crashes, traits) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (name, queue, lane, max_attempts, max_crashes, traits) DO UPDATE SET name = name RETURNING id

-- :worker
SELECT num, expires_at FROM millrace_worker WHERE id = ?

-- :count
INSERT INTO millrace_tally (kind, what, n) VALUES (?, ?, ?)
ON CONFLICT (kind, what) DO UPDATE SET n = n + excluded.n

-- :concern  the queue of a new kind whose definition has limits
UPDATE millrace_queue SET traffic = 1 WHERE id = (SELECT queue FROM millrace_kind WHERE id = ?)
AND EXISTS (SELECT 1 FROM millrace_gate WHERE scope = 'job' AND owner = '' AND name = ? AND active = 1)
