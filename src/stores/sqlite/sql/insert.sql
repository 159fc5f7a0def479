-- :plain  a job that is ready now and carries nothing special
INSERT INTO millrace_job (id, kind, state, created_at, input) VALUES (?, ?, 1, ?, ?)
ON CONFLICT (id) DO NOTHING

-- :child  the same, of a job that one other waits for
INSERT INTO millrace_job (id, kind, state, created_at, input, parent) VALUES (?, ?, 1, ?, ?, ?)
ON CONFLICT (id) DO NOTHING

-- :full
INSERT INTO millrace_job (id, kind, state, created_at, input, due_at, overrides, tags, metadata, grp, key, gated, dedupe, turn, family, parent, guard, search)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING

-- :ready  jobs of one run of positions, all of the same queue and lane
INSERT INTO millrace_ready (queue, lane, seq)
SELECT ?, ?, seq FROM millrace_job WHERE seq BETWEEN ? AND ?

-- :standing  the job that an insert ran into
SELECT state, EXISTS (
  SELECT 1 FROM millrace_worker w JOIN millrace_lease l ON l.worker = w.num AND l.seq = j.seq
) AS leased
FROM millrace_job j WHERE id = ?
