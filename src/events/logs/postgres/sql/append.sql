-- append(now, careful, appends, events) -> taken, answers
--   appends: {"names": streams, in an order that all processes share; "creates": which of them may be new; "slots": theirs;
--     "which": of each append the number of its stream; "ids", "expected", "sizes": of each append; expected -1: any, -2: exists}
--   events: [{"n": append, "nth": in it, "id", "type", "schema", "data", "meta"}]
--   careful: looks first for ids that others have; otherwise the unique index refuses them, and all else with them.
--   taken: such an id; then nothing was written.
--   answers: four numbers for each append: 0 conflict, 1 appended, 2 repeated; version; position; at.
-- Whoever gives out positions holds the lock {writers} from before the first one until its transaction is over. That is what
-- readers go by: see writers.sql.
CREATE OR REPLACE FUNCTION {schema}.append_{set}(
  now text, careful boolean, appends text, events text, OUT taken text, OUT answers text)
LANGUAGE plpgsql
{steady}
AS $$
#variable_conflict use_column
DECLARE
  moment bigint;
  names text[]; creates boolean[]; slots int[]; which int[]; ids uuid[]; expecteds bigint[]; sizes int[];
  versions bigint[];         -- of each stream, as the appends so far leave it
  firsts bigint[];           -- of each append that is there already: the version of its first event
  befores bigint[] := '{}';  -- of each append: the version that it met
  bases bigint[] := '{}';    -- the same where it is accepted; -1 elsewhere
  given_out bigint[];        -- positions
  accepted int := 0;         -- events
  upto int := 0;
  told bigint[] := '{}';
  version_met bigint; version_expected bigint;
  last record;
BEGIN
  SELECT g.names, g.creates, g.slots, g.which, g.ids, g.expected, g.sizes
  INTO names, creates, slots, which, ids, expecteds, sizes
  FROM json_to_record(appends::json) g (
    names text[], creates boolean[], slots int[], which int[], ids uuid[], expected bigint[], sizes int[]);

  IF careful THEN
    SELECT g.id::text INTO taken
    FROM json_to_recordset(events::json) g (n int, nth int, id uuid)
    CROSS JOIN LATERAL (SELECT e.stream FROM {schema}.event e WHERE e.id = g.id OFFSET 0) e
    WHERE CASE WHEN g.nth = 1 THEN e.stream <> names[which[g.n]] ELSE NOT EXISTS (
      SELECT FROM {schema}.event f WHERE f.id = ids[g.n] AND f.stream = names[which[g.n]]) END
    LIMIT 1;
    IF taken IS NOT NULL THEN RETURN; END IF;
  END IF;

  -- In the order of the names, here and below, so that no two wait for each other.
  INSERT INTO {schema}.stream (id, version)
  SELECT g.name, 0 FROM unnest(names, creates) WITH ORDINALITY g (name, is_new, nth) WHERE g.is_new ORDER BY g.nth
  ON CONFLICT (id) DO NOTHING;
  SELECT array_agg(coalesce(s.version, 0) ORDER BY g.nth) INTO versions
  FROM unnest(names) WITH ORDINALITY g (name, nth)
  LEFT JOIN LATERAL (SELECT s.version FROM {schema}.stream s WHERE s.id = g.name FOR NO KEY UPDATE) s ON true;

  -- Looked for under the lock of the stream: the same append may just have come over another connection.
  SELECT array_agg(e.version ORDER BY g.nth) INTO firsts
  FROM unnest(ids, which) WITH ORDINALITY g (id, name, nth)
  LEFT JOIN LATERAL (
    SELECT e.version FROM {schema}.event e WHERE e.id = g.id AND e.stream = names[g.name] OFFSET 0
  ) e ON true;

  moment := {schema}.clock_{set}(now);
  FOR i IN 1 .. cardinality(ids) LOOP
    version_met := versions[which[i]];
    version_expected := expecteds[i];
    befores[i] := version_met;
    bases[i] := -1;
    IF firsts[i] IS NULL AND (version_expected = version_met OR version_expected = -1
      OR version_expected = -2 AND version_met > 0) THEN
      bases[i] := version_met;
      versions[which[i]] := version_met + sizes[i];
      accepted := accepted + sizes[i];
    END IF;
  END LOOP;

  IF accepted > 0 THEN
    -- The id first: it is how readers know who holds the lock, also when the transaction is prepared.
    PERFORM pg_current_xact_id();
    PERFORM pg_advisory_xact_lock_shared({writers});
    WITH added AS (
      INSERT INTO {schema}.event (id, stream, version, slot, at, type, schema, data, meta)
      SELECT g.id, names[which[g.n]], bases[g.n] + g.nth, slots[which[g.n]], moment, g.type, g.schema, g.data, g.meta
      FROM json_to_recordset(events::json) g (n int, nth int, id uuid, type text, schema int, data text, meta text)
      WHERE bases[g.n] >= 0
      ORDER BY g.n, g.nth
      RETURNING position
    )
    SELECT array_agg(a.position ORDER BY a.position) INTO given_out FROM added a;
    UPDATE {schema}.stream s SET version = g.version
    FROM unnest(names, versions) g (name, version) WHERE s.id = g.name AND s.version < g.version;
  END IF;

  FOR i IN 1 .. cardinality(ids) LOOP
    told[4 * i] := 0;
    IF bases[i] >= 0 THEN
      upto := upto + sizes[i];
      told[4 * i - 3] := 1;
      told[4 * i - 2] := bases[i] + sizes[i];
      told[4 * i - 1] := given_out[upto];
      told[4 * i] := moment;
    ELSIF firsts[i] IS NOT NULL THEN
      -- The last one that is kept of it.
      SELECT e.version, e.position, e.at INTO last FROM {schema}.event e
      WHERE e.stream = names[which[i]] AND e.version BETWEEN firsts[i] AND firsts[i] + sizes[i] - 1
      ORDER BY e.version DESC LIMIT 1;
      told[4 * i - 3] := 2;
      told[4 * i - 2] := last.version;
      told[4 * i - 1] := last.position;
      told[4 * i] := last.at;
    ELSE
      told[4 * i - 3] := 0;
      told[4 * i - 2] := befores[i];
      told[4 * i - 1] := 0;
    END IF;
  END LOOP;
  answers := array_to_string(told, ',');
END
$$;
