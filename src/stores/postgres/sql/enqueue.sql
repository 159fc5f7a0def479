-- enqueue(name, input, options) -> text: adds a job, for triggers and for other languages; gives its id. The job exists if and
-- only if the transaction commits, and a worker finds it when it polls.
--
--   PERFORM millrace.enqueue('send-receipt', jsonb_build_object('order', NEW.id), '{"delay": 5000}');
--
-- In.
--   name     of the job's definition
--   input    for its handler. JSON; what JSON has not goes as {"$millrace": ["date", "2030-01-01T00:00:00.000Z"]}, and so on:
--            see core/codec.ts. Numbers are those of JavaScript
--   options  an object; a member that is null counts as absent:
--     id           a job that has it already stands, and nothing is added; default: a new UUID
--     queue        default: 'default'
--     priority     'critical', 'high', 'default' or 'low'; default: 'default'
--     delay        milliseconds; default: 0
--     runAt        instead of a delay: epoch milliseconds, or a text in ISO 8601, in UTC if it names no zone
--     maxAttempts  default: 3
--     maxCrashes   default: 3
--     version      of the input's form, for a definition that has versions; default: 0, the oldest
--     tags         an array of texts
--     metadata     any JSON
--     group, key   texts, for limits by group and by key
--     dedupe       a key; or { key, mode, window, most }, where mode is 'until-done', 'throttle', 'debounce' or 'replace', and
--                  window and most are milliseconds
-- Out.
--   The job's id. Where another job with the same dedupe key stands, there will be no job with it.
-- Errors. 22023: an option is wrong; the message names it, its value and what was expected.
--
-- The database does not know definitions. What one sets of queue, priority, maxAttempts and maxCrashes has to be given here
-- again, and so has what it makes of the input: group, key, dedupe. Jobs with an idempotency key and sagas cannot be enqueued
-- from here, and the fields of `search` are not taken from the input: only a list that looks at all inputs finds it by them. Whoever calls it needs the rights to write to this schema; for others, call it in a function of yours that is
-- SECURITY DEFINER.
CREATE OR REPLACE FUNCTION {schema}.enqueue(name text, input jsonb DEFAULT 'null', options jsonb DEFAULT '{}') RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  o CONSTANT jsonb := coalesce(nullif(options, 'null'), '{}');
  known CONSTANT text[] := '{id,queue,priority,delay,runAt,maxAttempts,maxCrashes,version,tags,metadata,group,key,dedupe}';
  name_pattern CONSTANT text := '^[A-Za-z0-9_]([A-Za-z0-9_/-]|\.(?!\.)){0,127}$';
  name_words CONSTANT text :=
    '1 to 128 letters, digits, ''_'', ''-'', ''/'' or single ''.'', starting with a letter, digit or ''_''';
  at CONSTANT bigint := floor(extract(epoch FROM clock_timestamp()) * 1000);
  body CONSTANT text := coalesce(input, 'null')::text;
  job_id text; in_queue text; in_lane int; attempts int; crashes int; overrides text; run_at float8; tags text; metadata text;
  in_group text; has_key text; dedupe jsonb; gated boolean; kind int;
BEGIN
  PERFORM {schema}.expect_{set}(jsonb_typeof(o) = 'object', 'options', o, 'an object');
  PERFORM {schema}.expect_{set}(false, 'option', to_jsonb(k), 'one of ' || array_to_string(known, ', '))
  FROM jsonb_object_keys(o) k WHERE k <> ALL (known);

  PERFORM {schema}.expect_{set}(coalesce(enqueue.name ~ (name_pattern COLLATE "C"), false), 'name', to_jsonb(enqueue.name), name_words);
  PERFORM {schema}.expect_{set}(octet_length(body) <= 1048576, 'input', to_jsonb(octet_length(body)), 'at most 1048576 bytes');
  job_id := coalesce({schema}.text_option_{set}(o, 'id', '^[A-Za-z0-9_.:@#=+/-]{1,128}$',
    '1 to 128 letters, digits or any of _ . : @ # = + / -'), {schema}.new_id_{set}(at));
  in_queue := coalesce({schema}.text_option_{set}(o, 'queue', name_pattern, name_words), 'default');
  in_lane := array_position('{critical,high,default,low}'::text[], coalesce({schema}.text_option_{set}(o, 'priority',
    '^(critical|high|default|low)$', 'one of critical, high, default, low'), 'default')) - 1;
  attempts := coalesce({schema}.whole_option_{set}(o, 'maxAttempts', 1, 10000), 3);
  crashes := coalesce({schema}.whole_option_{set}(o, 'maxCrashes', 1, 10000), 3);
  overrides := '{"version":' || {schema}.whole_option_{set}(o, 'version', 1, 1000000000) || '}';
  run_at := {schema}.due_option_{set}(o, at);
  tags := {schema}.tags_option_{set}(nullif(o->'tags', 'null'));
  metadata := nullif(o->'metadata', 'null')::text;
  PERFORM {schema}.expect_{set}(octet_length(metadata) <= 16384, 'metadata', to_jsonb(octet_length(metadata)), 'at most 16384 bytes');
  in_group := {schema}.key_option_{set}(o, 'group');
  has_key := {schema}.key_option_{set}(o, 'key');
  dedupe := {schema}.dedupe_option_{set}(nullif(o->'dedupe', 'null'), run_at IS NOT NULL);

  gated := EXISTS (
    SELECT 1 FROM {schema}.gate g WHERE g.scope = 'job' AND g.owner = '' AND g.name = enqueue.name AND g.active);
  IF NOT gated AND in_group IS NULL AND has_key IS NULL AND dedupe IS NULL THEN
    SELECT k.num INTO kind FROM {schema}.queue q JOIN {schema}.kind k ON k.queue = q.num
    WHERE q.name = in_queue AND k.name = enqueue.name AND k.lane = in_lane AND NOT q.traffic;
  END IF;

  IF kind IS NOT NULL THEN
    PERFORM {schema}.insert_jobs_{set}(NULL, ARRAY[kind], ARRAY[attempts, crashes], job_id, body, NULL,
      CASE WHEN run_at IS NOT NULL THEN ARRAY[run_at] END, overrides, tags, NULL, metadata, false);
  ELSE
    -- The first one of its kind too: who makes a kind holds up all others that want it, and this transaction may take long.
    INSERT INTO {schema}.arrival (jobs) VALUES (json_build_array(json_strip_nulls(json_build_object(
      'id', job_id, 'name', enqueue.name, 'queue', in_queue, 'lane', in_lane, 'input', body, 'delay', 0, 'runAt', run_at,
      'maxAttempts', attempts, 'maxCrashes', crashes, 'overrides', overrides, 'tags', tags::json, 'metadata', metadata,
      'traffic', CASE WHEN gated OR in_group IS NOT NULL OR has_key IS NOT NULL
        THEN json_build_object('gated', gated, 'group', in_group, 'key', has_key) END,
      'dedupe', dedupe))));
  END IF;
  RETURN job_id;
END
$$;

-- Raises 22023 unless it is so. What is absent is as expected.
CREATE OR REPLACE FUNCTION {schema}.expect_{set}(so boolean, field text, value jsonb, expected text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF so OR (so IS NULL AND nullif(value, 'null') IS NULL) THEN RETURN; END IF;
  RAISE invalid_parameter_value USING
    MESSAGE = format('millrace: %s is %s; expected %s', field, coalesce(left(value::text, 60), 'null'), expected);
END
$$;

-- Options by kind. `path` stands before the field's name in errors.

CREATE OR REPLACE FUNCTION {schema}.text_option_{set}(options jsonb, field text, pattern text, expected text, path text DEFAULT '')
RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM {schema}.expect_{set}(jsonb_typeof(options->field) IN ('string', 'null') AND options->>field ~ (pattern COLLATE "C"),
    path || field, options->field, expected);
  RETURN options->>field;
END
$$;

-- Of groups and keys: a number is taken for its text.
CREATE OR REPLACE FUNCTION {schema}.key_option_{set}(options jsonb, field text, path text DEFAULT '') RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM {schema}.expect_{set}(
    jsonb_typeof(options->field) IN ('string', 'number', 'null')
      AND options->>field ~ '^[^\u0001-\u001f\u007f-\u009f]{1,128}$',
    path || field, options->field, 'a text of 1 to 128 characters without control characters');
  RETURN options->>field;
END
$$;

CREATE OR REPLACE FUNCTION {schema}.whole_option_{set}(options jsonb, field text, lowest bigint, highest bigint, path text DEFAULT '')
RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  value CONSTANT jsonb := nullif(options->field, 'null');
  number numeric;
BEGIN
  IF value IS NULL THEN RETURN NULL; END IF;
  IF jsonb_typeof(value) = 'number' THEN number := value; END IF;
  PERFORM {schema}.expect_{set}(coalesce(number BETWEEN lowest AND highest AND number % 1 = 0, false), path || field, value,
    format('a whole number from %s to %s', lowest, highest));
  RETURN number;
END
$$;

-- When the job is due, in epoch milliseconds; null: now.
CREATE OR REPLACE FUNCTION {schema}.due_option_{set}(options jsonb, at bigint) RETURNS float8
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $$
DECLARE
  longest CONSTANT bigint := 315576000000;
  delay CONSTANT bigint := {schema}.whole_option_{set}(options, 'delay', 0, longest);
  value CONSTANT jsonb := nullif(options->'runAt', 'null');
  due numeric;  -- JSON has numbers that no float8 can hold
BEGIN
  IF value IS NULL THEN RETURN at + nullif(delay, 0); END IF;
  PERFORM {schema}.expect_{set}(delay IS NULL, 'runAt', value, 'either delay or runAt, not both');
  IF jsonb_typeof(value) = 'number' THEN
    due := value;
  ELSIF options->>'runAt' ~ '^\d{4}-\d\d-\d\d' THEN
    BEGIN
      due := extract(epoch FROM (options->>'runAt')::timestamptz) * 1000;
    EXCEPTION WHEN data_exception THEN
      due := NULL;
    END;
  END IF;
  PERFORM {schema}.expect_{set}(coalesce(due BETWEEN 0 AND at + longest, false), 'runAt', value,
    'epoch milliseconds or a time such as 2030-01-31T12:00:00Z, at most 10 years from now');
  RETURN round(due);
END
$$;

-- A JSON text; null: none.
CREATE OR REPLACE FUNCTION {schema}.tags_option_{set}(value jsonb) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF value IS NULL THEN RETURN NULL; END IF;
  PERFORM {schema}.expect_{set}(CASE WHEN jsonb_typeof(value) = 'array' THEN jsonb_array_length(value) <= 16 ELSE false END,
    'tags', value, 'an array of at most 16 strings');
  PERFORM {schema}.expect_{set}(jsonb_typeof(e.tag) = 'string' AND e.tag #>> '{}' ~ ('^[A-Za-z0-9_.:@#=+/-]{1,64}$' COLLATE "C"),
    format('tags[%s]', e.nth - 1), e.tag, '1 to 64 letters, digits or any of _ . : @ # = + / -')
  FROM jsonb_array_elements(value) WITH ORDINALITY e (tag, nth);
  RETURN (
    SELECT json_agg(d.tag ORDER BY d.nth)
    FROM (SELECT e.tag, min(e.nth) AS nth FROM jsonb_array_elements(value) WITH ORDINALITY e (tag, nth) GROUP BY e.tag) d
  );
END
$$;

-- As compileDedupe in core/traffic/options.ts makes it.
CREATE OR REPLACE FUNCTION {schema}.dedupe_option_{set}(value jsonb, has_time boolean) RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  longest CONSTANT bigint := 315576000000;
  rule CONSTANT jsonb := CASE WHEN jsonb_typeof(value) = 'object' THEN value ELSE jsonb_build_object('key', value) END;
  key text; mode text; span bigint; most bigint;
BEGIN
  IF value IS NULL THEN RETURN NULL; END IF;
  PERFORM {schema}.expect_{set}(false, 'option', to_jsonb('dedupe.' || k), 'one of key, mode, window, most')
  FROM jsonb_object_keys(rule) k WHERE k NOT IN ('key', 'mode', 'window', 'most');
  key := {schema}.key_option_{set}(rule, 'key', 'dedupe.');
  IF key IS NULL THEN RETURN NULL; END IF;
  mode := coalesce({schema}.text_option_{set}(rule, 'mode', '^(until-done|throttle|debounce|replace)$',
    'one of until-done, throttle, debounce, replace', 'dedupe.'), 'until-done');
  span := {schema}.whole_option_{set}(rule, 'window', 0, longest, 'dedupe.');
  most := {schema}.whole_option_{set}(rule, 'most', coalesce(span, 0), longest, 'dedupe.');
  PERFORM {schema}.expect_{set}((mode IN ('throttle', 'debounce')) = (span IS NOT NULL), 'dedupe.window', rule->'window',
    CASE WHEN span IS NULL THEN 'milliseconds for ' ELSE 'none for ' END || mode);
  PERFORM {schema}.expect_{set}(most IS NULL OR mode = 'debounce', 'dedupe.most', rule->'most', 'none for ' || mode);
  PERFORM {schema}.expect_{set}(NOT (mode = 'debounce' AND has_time), 'dedupe.mode', rule->'mode',
    'another mode, or no delay and runAt: debounce decides when it starts');
  RETURN jsonb_build_object('key', key, 'mode', mode, 'window', coalesce(span, 0),
    'most', coalesce(most, least(coalesce(span, 0) * 10, longest)));
END
$$;

-- A UUID, version 7, as system/ids.ts makes them.
CREATE OR REPLACE FUNCTION {schema}.new_id_{set}(at bigint) RETURNS text
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT overlay(lpad(to_hex(at), 12, '0') PLACING '-' FROM 9 FOR 0) || '-7' || substr(gen_random_uuid()::text, 16)
$$;
