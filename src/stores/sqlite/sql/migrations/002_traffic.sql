-- Traffic control. A queue whose jobs nothing but its pause can hold up has traffic = 0 and none of the rest.
ALTER TABLE millrace_queue ADD COLUMN traffic INTEGER NOT NULL DEFAULT 0;

ALTER TABLE millrace_job ADD COLUMN grp TEXT;
ALTER TABLE millrace_job ADD COLUMN key TEXT;
ALTER TABLE millrace_job ADD COLUMN gated INTEGER;
ALTER TABLE millrace_job ADD COLUMN dedupe TEXT;  -- its key, where the newest job of a key must have the last word
ALTER TABLE millrace_job ADD COLUMN turn REAL;    -- its rank in millrace_turn while it stands there, negative while it is parked

-- A definition with limits has a line of its own in each lane; name is empty for jobs that only have groups.
CREATE TABLE millrace_line (
  id       INTEGER PRIMARY KEY,
  queue    INTEGER NOT NULL,
  lane     INTEGER NOT NULL,
  name     TEXT NOT NULL,
  served   REAL NOT NULL DEFAULT 0,
  tag      REAL NOT NULL DEFAULT 0,
  back_tag REAL NOT NULL DEFAULT 0,
  jobs     INTEGER NOT NULL DEFAULT 0,
  UNIQUE (queue, lane, name)
) STRICT;

-- Pending jobs in lines, by their turns; with the negative number of a gate, those parked behind it, by the line
-- that they belong in.
CREATE TABLE millrace_turn (
  line INTEGER NOT NULL,
  rank REAL NOT NULL,
  seq  INTEGER NOT NULL,
  PRIMARY KEY (line, rank, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE millrace_gate (
  num      INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used again: parked jobs stand under it
  scope    TEXT NOT NULL,             -- queue, job, group, key or limiter
  owner    TEXT NOT NULL,             -- the queue of a group, the definition of a key
  name     TEXT NOT NULL,
  pending  INTEGER NOT NULL DEFAULT 0,
  parked   INTEGER NOT NULL DEFAULT 0,
  running  INTEGER NOT NULL DEFAULT 0,
  lines    TEXT,                      -- what it has in each line: number, tags, standing and parked jobs
  active   INTEGER NOT NULL DEFAULT 0,
  due_at   INTEGER,                   -- when its parked jobs are worth a look
  idle_at  INTEGER,                   -- when it may be forgotten, if nothing happens until then
  declared TEXT,
  chosen   TEXT,
  memory   TEXT,                      -- starts, hold, breaker and quarantine, as JSON
  UNIQUE (scope, owner, name)
) STRICT;

CREATE INDEX millrace_gate_due ON millrace_gate (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX millrace_gate_idle ON millrace_gate (idle_at) WHERE idle_at IS NOT NULL;
CREATE INDEX millrace_gate_parked ON millrace_gate (scope, owner) WHERE parked > 0;

-- Who has the key of jobs that are deduped.
CREATE TABLE millrace_holder (
  name       TEXT NOT NULL,
  key        TEXT NOT NULL,
  id         TEXT NOT NULL,
  since      INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,        -- when it is worth a look whether the key is free
  PRIMARY KEY (name, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX millrace_holder_expires ON millrace_holder (expires_at);
