-- {schema} is replaced by the quoted name of the schema that the user chose, which holds nothing else. Times are epoch
-- milliseconds by the log's clock. Names compare byte by byte, so that those of a category stand together.

-- Half empty pages: a stream's row changes with each append, and stays on its page.
CREATE TABLE {schema}.stream (
  id      text COLLATE "C" PRIMARY KEY,
  version bigint NOT NULL   -- of its newest event, whatever is kept of it; 0 while it is not there
) WITH (fillfactor = 50);

-- A position is given out under the lock that readers look for, see append.sql and writers.sql; so there must be no cache.
CREATE TABLE {schema}.event (
  position bigint GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY,
  at       bigint NOT NULL,
  version  bigint NOT NULL,
  slot     int NOT NULL,    -- of its stream
  schema   int NOT NULL,
  id       uuid NOT NULL,
  stream   text COLLATE "C" NOT NULL,
  type     text COLLATE "C" NOT NULL,
  data     text NOT NULL,
  meta     text
);
CREATE UNIQUE INDEX event_id ON {schema}.event (id);
CREATE UNIQUE INDEX event_stream ON {schema}.event (stream, version);

CREATE TABLE {schema}.snapshot (
  stream  text COLLATE "C" NOT NULL,
  name    text COLLATE "C" NOT NULL,
  schema  int NOT NULL,
  version bigint NOT NULL,
  state   text NOT NULL,
  PRIMARY KEY (stream, name)
);

CREATE TABLE {schema}.projection (
  name     text COLLATE "C" PRIMARY KEY,
  parts    int NOT NULL,
  live     int NOT NULL,
  building int
);

CREATE TABLE {schema}.checkpoint (
  name         text COLLATE "C" NOT NULL,
  generation   int NOT NULL,
  part         int NOT NULL,
  position     bigint NOT NULL,
  leased_until bigint NOT NULL DEFAULT 0,
  token        text,
  owner        text,
  PRIMARY KEY (name, generation, part)
) WITH (fillfactor = 50);
