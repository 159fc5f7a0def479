-- told(rest) -> rest: if there is anything in it that a client has to know, of earlier runs.
CREATE OR REPLACE FUNCTION {schema}.told_{set}(rest text) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$
  SELECT CASE WHEN pg_catalog.strpos(rest, '"attempt":') + pg_catalog.strpos(rest, '"crashes":')
    + pg_catalog.strpos(rest, '"readyAt":') + pg_catalog.strpos(rest, '"retryDelay":') > 0 THEN rest END
$$;

-- tell(held, odd, exactly): what a client has to know of the live jobs in these spans. A part of exchange, whose settings it runs
-- under, and of what the desk claims by count; what comes out as there. MR001 when there are special ones among them that
-- must not be, or not exactly so many.
CREATE OR REPLACE FUNCTION {schema}.tell_{set}(
  held bigint[], odd boolean, exactly int,
  OUT n int, OUT kind int, OUT kind_to int, OUT seqs text, OUT kinds text, OUT created text, OUT limits text, OUT ids text,
  OUT inputs text, OUT extras text)
LANGUAGE plpgsql
AS $$
DECLARE
  sep CONSTANT text := chr(30);
  special boolean; more int; born bigint; born_to bigint;
  attempts int; attempts_to int; crashes int; crashes_to int;
  places bigint[]; borns bigint[];
BEGIN
  SELECT count(*), bool_or(j.special), count(coalesce(j.overrides, j.tags, j.metadata, {schema}.told_{set}(j.rest))),
    min(j.kind), max(j.kind), min(j.created_at), max(j.created_at),
    min(j.max_attempts), max(j.max_attempts), min(j.max_crashes), max(j.max_crashes),
    array_agg(j.seq), array_agg(j.created_at), string_agg(j.id, sep), string_agg(j.input, sep)
  INTO n, special, more, kind, kind_to, born, born_to, attempts, attempts_to, crashes, crashes_to, places, borns, ids, inputs
  FROM generate_series(1, cardinality(held), 2) s (i)
  CROSS JOIN LATERAL (
    SELECT * FROM {schema}.job k WHERE k.seq BETWEEN held[s.i] AND held[s.i + 1] AND k.state = 0 ORDER BY k.seq
  ) j;
  IF special AND NOT odd OR n <> exactly THEN RAISE SQLSTATE 'MR001' USING MESSAGE = 'special job'; END IF;
  -- A client cannot hold a text of half a gigabyte.
  IF octet_length(inputs) > 100000000 THEN RAISE program_limit_exceeded USING MESSAGE = 'jobs too large'; END IF;
  IF n = 0 THEN RETURN; END IF;
  seqs := array_to_string(places, ',');
  kinds := kind;
  created := CASE WHEN born = born_to THEN born::text ELSE array_to_string(borns, ',') END;
  limits := attempts || ':' || crashes;
  IF kind <> kind_to OR attempts <> attempts_to OR crashes <> crashes_to THEN
    SELECT string_agg(j.kind::text, ',' ORDER BY s.nth), string_agg(j.max_attempts || ':' || j.max_crashes, ',' ORDER BY s.nth)
    INTO kinds, limits
    FROM unnest(places) WITH ORDINALITY s (seq, nth)
    CROSS JOIN LATERAL (SELECT * FROM {schema}.job k WHERE k.seq = s.seq OFFSET 0) j;
  END IF;
  IF more > 0 THEN
    SELECT json_agg(json_build_array(s.nth - 1, j.overrides, j.tags, j.metadata, {schema}.told_{set}(j.rest)))::text
    INTO extras
    FROM unnest(places) WITH ORDINALITY s (seq, nth)
    CROSS JOIN LATERAL (SELECT * FROM {schema}.job k WHERE k.seq = s.seq OFFSET 0) j
    WHERE coalesce(j.overrides, j.tags, j.metadata, {schema}.told_{set}(j.rest)) IS NOT NULL;
  END IF;
END
$$;

-- tell_waiting(held): the same for what the desk claims by count, all of which stop waiting.
CREATE OR REPLACE FUNCTION {schema}.tell_waiting_{set}(
  held bigint[], exactly int,
  OUT seqs text, OUT kinds text, OUT created text, OUT limits text, OUT ids text, OUT inputs text, OUT extras text)
LANGUAGE plpgsql
{steady}
{nested}
AS $$
BEGIN
  DELETE FROM {schema}.waiting w USING generate_series(1, cardinality(held), 2) s (i)
  WHERE w.seq BETWEEN held[s.i] AND held[s.i + 1];
  SELECT t.seqs, t.kinds, t.created, t.limits, t.ids, t.inputs, t.extras
  INTO seqs, kinds, created, limits, ids, inputs, extras FROM {schema}.tell_{set}(held, false, exactly) t;
END
$$;
