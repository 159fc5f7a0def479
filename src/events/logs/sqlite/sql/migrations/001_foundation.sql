-- All names start with millrace_event, because the file may hold jobs and the caller's own tables too.
CREATE TABLE millrace_events_schema (version INTEGER NOT NULL) STRICT;
INSERT INTO millrace_events_schema VALUES (0);

CREATE TABLE millrace_event_stream (
  id      TEXT PRIMARY KEY,
  version INTEGER NOT NULL   -- of its newest event, whatever is kept of it
) STRICT, WITHOUT ROWID;

-- AUTOINCREMENT: a position is never used again, whatever is removed.
CREATE TABLE millrace_event (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  id       TEXT NOT NULL UNIQUE,
  stream   TEXT NOT NULL,
  version  INTEGER NOT NULL,
  slot     INTEGER NOT NULL,  -- of its stream
  at       INTEGER NOT NULL,  -- epoch ms by the log's clock
  type     TEXT NOT NULL,
  schema   INTEGER NOT NULL,
  data     TEXT NOT NULL,
  meta     TEXT,
  UNIQUE (stream, version)
) STRICT;

CREATE TABLE millrace_event_snapshot (
  stream  TEXT NOT NULL,
  name    TEXT NOT NULL,
  schema  INTEGER NOT NULL,
  version INTEGER NOT NULL,
  state   TEXT NOT NULL,
  PRIMARY KEY (stream, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE millrace_event_projection (
  name     TEXT PRIMARY KEY,
  parts    INTEGER NOT NULL,
  live     INTEGER NOT NULL,
  building INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE millrace_event_checkpoint (
  name         TEXT NOT NULL,
  generation   INTEGER NOT NULL,
  part         INTEGER NOT NULL,
  position     INTEGER NOT NULL,
  token        TEXT,
  owner        TEXT,
  leased_until INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (name, generation, part)
) STRICT, WITHOUT ROWID;
