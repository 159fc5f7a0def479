-- :post
INSERT INTO millrace_signal (key, id, payload, expires_at) VALUES (?, ?, ?, ?)
ON CONFLICT (key, id) DO NOTHING RETURNING n

-- :next  the oldest after a number
SELECT n, payload FROM millrace_signal
WHERE key = ? AND n > ? AND (expires_at >= ? OR spreading = 1) ORDER BY n LIMIT 1

-- :waiting  a job that waits for it twice is there twice
SELECT seq FROM millrace_wait WHERE key = ? AND after < ? ORDER BY n LIMIT ?

-- :spreading
SELECT n, key FROM millrace_signal WHERE spreading = 1 ORDER BY n LIMIT ?

-- :setSpreading
UPDATE millrace_signal SET spreading = ? WHERE n = ?

-- :expired
SELECT n FROM millrace_signal WHERE expires_at < ? AND spreading = 0 ORDER BY expires_at LIMIT ?

-- :forget
DELETE FROM millrace_signal WHERE n = ?
