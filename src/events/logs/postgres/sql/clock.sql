-- clock(given) -> bigint: epoch milliseconds; the server's where none are given. As text, because callers' libraries send
-- nothing else safely.
CREATE OR REPLACE FUNCTION {schema}.clock_{set}(given text) RETURNS bigint
LANGUAGE sql VOLATILE
AS $$
  SELECT coalesce(nullif(given, '')::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
$$;
