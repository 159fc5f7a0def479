-- Marks of jobs on the fast path; those of others the desk writes. See select.sql for what they are good for.

-- marks_of(tags, search) -> text: each once.
CREATE OR REPLACE FUNCTION {schema}.marks_of_{set}(tags text, search text) RETURNS SETOF text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT e FROM json_array_elements_text(tags::json) e UNION SELECT e FROM json_array_elements_text(search::json) e
$$;

-- mark_done(seqs, untils): of jobs that completed, each kept so long.
CREATE OR REPLACE FUNCTION {schema}.mark_done_{set}(seqs bigint[], untils bigint[]) RETURNS void
LANGUAGE sql
AS $$
  UPDATE {schema}.mark m SET state = 5, rank = g.until
  FROM unnest(seqs, untils) g (seq, until)
  CROSS JOIN LATERAL (SELECT * FROM {schema}.job k WHERE k.seq = g.seq OFFSET 0) j
  CROSS JOIN LATERAL {schema}.marks_of_{set}(j.tags, j.search) e (mark)
  WHERE m.mark = ANY (ARRAY[e.mark]) AND m.state = 0 AND m.rank = 0 AND m.seq BETWEEN g.seq AND g.seq
$$;

-- unmark(state, gone): of jobs that are gone: [[seq, tags, search, rank], ...].
CREATE OR REPLACE FUNCTION {schema}.unmark_{set}(of_state int, gone json) RETURNS void
LANGUAGE sql
AS $$
  DELETE FROM {schema}.mark m
  USING json_array_elements(gone) g CROSS JOIN LATERAL {schema}.marks_of_{set}(g->>1, g->>2) e (mark)
  WHERE m.mark = ANY (ARRAY[e.mark]) AND m.state = of_state AND m.rank = ANY (ARRAY[(g->>3)::float8])
    AND m.seq BETWEEN (g->>0)::bigint AND (g->>0)::bigint
$$;

-- has_field(input, path, value) -> boolean: whether an input, a JSON text, has this value there. JSON knows texts that jsonb
-- does not: with half of a surrogate pair or a NUL in them. For these another character stands.
CREATE OR REPLACE FUNCTION {schema}.has_field_{set}(input text, path text[], value text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  odd CONSTANT text := '\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})';
BEGIN
  IF strpos(input, path[cardinality(path)]) = 0 THEN RETURN false; END IF;
  BEGIN
    RETURN coalesce(input::jsonb #> path = value::jsonb, false);
  EXCEPTION WHEN data_exception THEN
    NULL;
  END;
  RETURN coalesce(
    regexp_replace(input, odd, '\\ufffd', 'g')::jsonb #> path = regexp_replace(value, odd, '\\ufffd', 'g')::jsonb, false);
EXCEPTION WHEN data_exception THEN
  RETURN false;
END
$$;
