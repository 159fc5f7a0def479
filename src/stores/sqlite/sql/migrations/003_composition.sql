-- Composition: schedules, jobs that wait for others, steps and signals, guards. Other jobs have none of it.

-- What jobs of a kind may have, so that a claim or a settlement looks for it only there: 1 a family, 2 a guard,
-- 4 a handler that undoes what it did when the job is cancelled, 8 children to wait for, 16 several parents.
CREATE TABLE millrace_kind_with_traits (
  id           INTEGER PRIMARY KEY,
  queue        INTEGER NOT NULL REFERENCES millrace_queue (id),
  lane         INTEGER NOT NULL,
  name         TEXT NOT NULL,
  max_attempts INTEGER NOT NULL,
  max_crashes  INTEGER NOT NULL,
  traits       INTEGER NOT NULL DEFAULT 0,
  UNIQUE (name, queue, lane, max_attempts, max_crashes, traits)
) STRICT;
INSERT INTO millrace_kind_with_traits (id, queue, lane, name, max_attempts, max_crashes)
SELECT id, queue, lane, name, max_attempts, max_crashes FROM millrace_kind;
DROP TABLE millrace_kind;
ALTER TABLE millrace_kind_with_traits RENAME TO millrace_kind;

ALTER TABLE millrace_job ADD COLUMN family TEXT;     -- flow, node and positions of parents, as JSON, where `parent` does not say it all
ALTER TABLE millrace_job ADD COLUMN parent INTEGER;  -- position of its parent, if it has exactly one
ALTER TABLE millrace_job ADD COLUMN guard TEXT;      -- key and retention, as JSON
ALTER TABLE millrace_job ADD COLUMN stepped INTEGER; -- 1 when it has rows in millrace_step
ALTER TABLE millrace_job ADD COLUMN search TEXT;     -- marks of the fields of its input that it is found by, as JSON

CREATE TABLE millrace_schedule (
  name       TEXT PRIMARY KEY,
  rule       TEXT NOT NULL,
  spec       TEXT NOT NULL,
  revision   TEXT NOT NULL,
  paused     INTEGER NOT NULL,
  fresh      INTEGER NOT NULL,
  slot       INTEGER,
  due_at     INTEGER,                 -- when it is worth a look: its slot, 0 while fresh
  since      INTEGER NOT NULL,        -- when it was told where it stands
  ahead      INTEGER,                 -- what that was when the clock was set back far
  fired      INTEGER NOT NULL,
  last_slot  INTEGER,
  last_job   TEXT,
  created_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX millrace_schedule_due ON millrace_schedule (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX millrace_schedule_since ON millrace_schedule (since) WHERE paused = 0;

-- A job that waits, or has waited, for children.
CREATE TABLE millrace_parent (
  seq      INTEGER PRIMARY KEY,
  children INTEGER NOT NULL DEFAULT 0,
  waiting  INTEGER NOT NULL DEFAULT 0, -- what it waits for before it runs
  fanned   INTEGER NOT NULL DEFAULT 0, -- children of its steps that have not ended
  failed   INTEGER NOT NULL DEFAULT 0,
  open     INTEGER NOT NULL DEFAULT 0, -- 1: not sealed; counts among those waited for
  alarmed  INTEGER NOT NULL DEFAULT 0, -- 1: woken because a child died
  replays  INTEGER NOT NULL DEFAULT 0, -- of children of its steps
  compensated INTEGER NOT NULL DEFAULT 0, -- 1: it died, and what completed for it was undone
  closed   TEXT,                       -- fans whose children stay as they ended, each between spaces
  doomed   TEXT                        -- set when it was cancelled: its children behind this one are to be cancelled too
) STRICT;

CREATE INDEX millrace_parent_doomed ON millrace_parent (seq) WHERE doomed IS NOT NULL;

CREATE TABLE millrace_link (
  parent     INTEGER NOT NULL,
  child      TEXT NOT NULL,
  name       TEXT NOT NULL,
  node       TEXT,
  on_failure TEXT NOT NULL,
  wakes      INTEGER NOT NULL,
  fan        TEXT,                     -- of a child that a step of the parent added: all of that step have the same
  undo       TEXT,
  state      INTEGER,                  -- how the child ended
  ended_at   INTEGER,
  result     TEXT,
  failure    TEXT,
  undone     INTEGER NOT NULL DEFAULT 0, -- 1: what undoes the child was added since it completed
  PRIMARY KEY (parent, child)
) STRICT, WITHOUT ROWID;

CREATE INDEX millrace_link_open ON millrace_link (parent, fan) WHERE state IS NULL;

CREATE TABLE millrace_step (
  n      INTEGER PRIMARY KEY,          -- in the order in which they were written
  seq    INTEGER NOT NULL,
  name   TEXT NOT NULL,
  value  TEXT,
  open   INTEGER NOT NULL,             -- 1: a sleep or a wait that is not over
  until  INTEGER,
  signal INTEGER,
  at     INTEGER NOT NULL,
  UNIQUE (seq, name)
) STRICT;

-- What blocked jobs wait for, in the order in which they began to.
CREATE TABLE millrace_wait (
  n     INTEGER PRIMARY KEY,
  seq   INTEGER NOT NULL,
  step  TEXT NOT NULL,
  key   TEXT NOT NULL,
  after INTEGER NOT NULL,
  UNIQUE (seq, step)
) STRICT;

CREATE INDEX millrace_wait_key ON millrace_wait (key);

-- Blocked jobs are listed like others that wait: the soonest first, then those that no time wakes.
DROP INDEX millrace_job_blocked;
CREATE INDEX millrace_job_blocked ON millrace_job (coalesce(due_at, 9007199254740991), seq) WHERE state = 4;

CREATE TABLE millrace_signal (
  n          INTEGER PRIMARY KEY AUTOINCREMENT,
  key        TEXT NOT NULL,
  id         TEXT NOT NULL,
  payload    TEXT,
  expires_at INTEGER NOT NULL,
  spreading  INTEGER NOT NULL DEFAULT 0, -- 1: more jobs waited for it than one call wakes
  UNIQUE (key, id)
) STRICT;

CREATE INDEX millrace_signal_key ON millrace_signal (key);
CREATE INDEX millrace_signal_expires ON millrace_signal (expires_at);
CREATE INDEX millrace_signal_spreading ON millrace_signal (n) WHERE spreading = 1;

CREATE TABLE millrace_guard (
  key        TEXT PRIMARY KEY,
  holder     TEXT NOT NULL,            -- a job's id, or what a caller named itself
  by_job     INTEGER NOT NULL,         -- 1: the holder is a job, and holds it until it ends
  done       INTEGER NOT NULL DEFAULT 0,
  since      INTEGER NOT NULL,
  result     TEXT,
  expires_at INTEGER,                  -- end of a caller's lease, or of the record's life
  stands_until INTEGER                 -- while the job is replayed: how long its earlier result stands
) STRICT, WITHOUT ROWID;

CREATE INDEX millrace_guard_expires ON millrace_guard (expires_at) WHERE expires_at IS NOT NULL;
