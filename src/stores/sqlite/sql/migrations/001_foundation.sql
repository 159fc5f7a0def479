-- All names start with millrace_, because the file may hold the caller's own tables too.
--
-- A job's row is written when it is enqueued and again when it ends or fails. What changes in between lives
-- in two small tables: a row in `millrace_ready` means pending, a row in `millrace_lease` means running. So a claim moves a
-- few bytes per job, whatever the size of its input, and neither table knows delayed or finished jobs.

CREATE TABLE millrace_queue (
  id     INTEGER PRIMARY KEY,
  name   TEXT NOT NULL UNIQUE,
  paused INTEGER NOT NULL DEFAULT 0
) STRICT;

-- What jobs that were enqueued alike have in common.
CREATE TABLE millrace_kind (
  id           INTEGER PRIMARY KEY,
  queue        INTEGER NOT NULL REFERENCES millrace_queue (id),
  lane         INTEGER NOT NULL,
  name         TEXT NOT NULL,
  max_attempts INTEGER NOT NULL,
  max_crashes  INTEGER NOT NULL,
  UNIQUE (name, queue, lane, max_attempts, max_crashes)
) STRICT;

CREATE TABLE millrace_job (
  seq           INTEGER PRIMARY KEY,  -- position in line
  id            TEXT NOT NULL UNIQUE,
  kind          INTEGER NOT NULL,
  state         INTEGER NOT NULL,     -- index into jobStates; a pending row with a lease is running
  created_at    INTEGER NOT NULL,
  input         TEXT NOT NULL,
  attempt       INTEGER NOT NULL DEFAULT 0,  -- attempts spent; the running one is not among them yet
  crashes       INTEGER NOT NULL DEFAULT 0,
  retry_delay   INTEGER NOT NULL DEFAULT 0,
  due_at        INTEGER,              -- set while scheduled or retrying
  ready_at      INTEGER,              -- when it was last promoted; created_at otherwise
  overrides     TEXT,
  tags          TEXT,
  metadata      TEXT,
  started_at    INTEGER,
  finished_at   INTEGER,
  expires_at    INTEGER,              -- set while completed, dead or cancelled
  result        TEXT,
  failure       TEXT,
  cause         TEXT,                 -- set while dead
  cancel_reason TEXT,
  progress      TEXT
) STRICT;

CREATE INDEX millrace_job_due ON millrace_job (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX millrace_job_blocked ON millrace_job (seq) WHERE state = 4;
CREATE INDEX millrace_job_expires ON millrace_job (state, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX millrace_job_cause ON millrace_job (cause, expires_at) WHERE cause IS NOT NULL;

CREATE TABLE millrace_ready (
  queue INTEGER NOT NULL,
  lane  INTEGER NOT NULL,
  seq   INTEGER NOT NULL,
  PRIMARY KEY (queue, lane, seq)
) STRICT, WITHOUT ROWID;

-- The worker's lease covers all of its jobs: one row to renew, however many run.
CREATE TABLE millrace_worker (
  num        INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used again: processes remember them
  id         TEXT NOT NULL UNIQUE,
  expires_at INTEGER NOT NULL
) STRICT;

CREATE TABLE millrace_lease (
  worker INTEGER NOT NULL,
  seq    INTEGER NOT NULL,
  token  TEXT NOT NULL,
  at     INTEGER NOT NULL,
  PRIMARY KEY (worker, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE millrace_attempt (
  seq        INTEGER NOT NULL,
  n          INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at   INTEGER NOT NULL,
  worker     TEXT NOT NULL,
  state      INTEGER NOT NULL,
  failure    TEXT,
  PRIMARY KEY (seq, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE millrace_log (
  seq   INTEGER NOT NULL,
  n     INTEGER NOT NULL,
  at    INTEGER NOT NULL,
  level TEXT NOT NULL,
  text  TEXT NOT NULL,
  PRIMARY KEY (seq, n)
) STRICT, WITHOUT ROWID;

-- Counts by state and totals, kept by every write, so that reading them counts no rows.
CREATE TABLE millrace_tally (
  kind INTEGER NOT NULL,
  what TEXT NOT NULL,
  n    INTEGER NOT NULL,
  PRIMARY KEY (kind, what)
) STRICT, WITHOUT ROWID;

CREATE TABLE millrace_cause (
  cause    TEXT PRIMARY KEY,
  name     TEXT NOT NULL,
  message  TEXT NOT NULL,
  n        INTEGER NOT NULL,
  first_at INTEGER NOT NULL,
  last_at  INTEGER NOT NULL,
  sample   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE millrace_schema (version INTEGER NOT NULL) STRICT;
INSERT INTO millrace_schema VALUES (0);
