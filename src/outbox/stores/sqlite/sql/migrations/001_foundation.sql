-- Rows that wait to be handed on. `kind` is 0 for jobs, 1 for messages; rows of one key have one slot. The seq of a row is
-- above those of its slot that are there; it may be one that a row which is gone had.
CREATE TABLE millrace_outbox_waiting (
  kind INTEGER NOT NULL,
  slot INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  id TEXT NOT NULL,
  key TEXT,
  topic TEXT,
  body TEXT NOT NULL,
  headers TEXT,
  at INTEGER NOT NULL,
  PRIMARY KEY (kind, slot, seq)
) STRICT, WITHOUT ROWID;

-- Slots that a relay is at work on. SQLite has one writer at a time, so a transaction cannot last as long as a dispatch.
CREATE TABLE millrace_outbox_lease (
  kind INTEGER NOT NULL,
  slot INTEGER NOT NULL,
  token TEXT NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY (kind, slot)
) STRICT, WITHOUT ROWID;

-- Lines that wait after a failure: 'k' and the key, or the seq of a row without one.
CREATE TABLE millrace_outbox_hold (
  kind INTEGER NOT NULL,
  slot INTEGER NOT NULL,
  line TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  until INTEGER NOT NULL,
  failure TEXT NOT NULL,
  PRIMARY KEY (kind, slot, line)
) STRICT, WITHOUT ROWID;

CREATE TABLE millrace_outbox_aside (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  kind INTEGER NOT NULL,
  slot INTEGER NOT NULL,
  id TEXT NOT NULL,
  key TEXT,
  topic TEXT,
  body TEXT NOT NULL,
  headers TEXT,
  at INTEGER NOT NULL,
  aside_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  failure TEXT NOT NULL
) STRICT;
CREATE INDEX millrace_outbox_aside_id ON millrace_outbox_aside (id);

-- What was handed on, for those who want to look back.
CREATE TABLE millrace_outbox_sent (
  kind INTEGER NOT NULL,
  id TEXT NOT NULL,
  key TEXT,
  topic TEXT,
  body TEXT NOT NULL,
  headers TEXT,
  at INTEGER NOT NULL,
  sent_at INTEGER NOT NULL
) STRICT;
CREATE INDEX millrace_outbox_sent_at ON millrace_outbox_sent (sent_at);

-- Messages that consumers have got: an inbox.
CREATE TABLE millrace_outbox_received (
  consumer TEXT NOT NULL,
  id TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (consumer, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX millrace_outbox_received_at ON millrace_outbox_received (consumer, at);

CREATE TABLE millrace_outbox_schema (version INTEGER NOT NULL) STRICT;
INSERT INTO millrace_outbox_schema VALUES (0);
