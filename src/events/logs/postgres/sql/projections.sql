-- In callers' transactions, whatever library they are of: parameters are texts, each stands once and in its order, and rows
-- come of a SELECT.

-- :declare  ($1 name, $2 parts, $3 after) -> a row if it is new
WITH fresh AS (
  INSERT INTO {schema}.projection (name, parts, live) VALUES ($1::text, $2::text::int, 1)
  ON CONFLICT (name) DO NOTHING RETURNING name, parts
), added AS (
  INSERT INTO {schema}.checkpoint (name, generation, part, position)
  SELECT f.name, 1, part, $3::text::bigint FROM fresh f, generate_series(0, f.parts - 1) part
)
SELECT name FROM fresh

-- :forget  ($1 name)
WITH gone AS (DELETE FROM {schema}.projection WHERE name = $1::text RETURNING name)
DELETE FROM {schema}.checkpoint c USING gone WHERE c.name = gone.name

-- :records  ($1 name, empty for all, $2 now) -> as JSON
SELECT json_build_object('name', p.name, 'parts', p.parts, 'live', p.live, 'building', p.building, 'checkpoints', (
  SELECT json_agg(json_build_object('generation', c.generation, 'part', c.part, 'position', c.position,
    'owner', CASE WHEN c.leased_until > g.now THEN c.owner END) ORDER BY c.generation, c.part)
  FROM {schema}.checkpoint c WHERE c.name = p.name
))::text AS record
FROM (SELECT $1::text AS name, {schema}.clock_{set}($2::text) AS now OFFSET 0) g
JOIN {schema}.projection p ON g.name IN ('', p.name)
ORDER BY p.name

-- :hold  ($1 name, $2 generation, $3 part, $4 token, $5 owner, $6 lease, $7 now, $8 'renewal' or empty) -> position. Its own
-- lease is waited for while a transaction moves the checkpoint. That of others is not, which have it as long as their
-- transaction lasts.
WITH held AS (
  SELECT c.part FROM {schema}.checkpoint c
  WHERE c.name = $1 AND c.generation = $2 AND c.part = $3 AND c.token = $4
  FOR NO KEY UPDATE
), free AS (
  SELECT c.part FROM {schema}.checkpoint c
  WHERE c.name = $1 AND c.generation = $2 AND c.part = $3 AND c.token IS DISTINCT FROM $4
    AND $8 = '' AND c.leased_until <= {schema}.clock_{set}($7)
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {schema}.checkpoint c SET token = $4, owner = $5, leased_until = {schema}.clock_{set}($7) + $6
WHERE c.name = $1 AND c.generation = $2
  AND c.part IN (SELECT part FROM held UNION ALL SELECT part FROM free)
RETURNING c.position

-- :advance  ($1 name, $2 generation, $3 part, $4 token, $5 position, $6 done, $7 now) -> a row if it has moved
WITH given AS MATERIALIZED (
  SELECT $1::text AS name, $2::text::int AS generation, $3::text::int AS part, $4::text AS token,
    $5::text::bigint AS position, $6::text = 'done' AS done, {schema}.clock_{set}($7::text) AS now
), moved AS (
  UPDATE {schema}.checkpoint c SET position = greatest(c.position, g.position),
    token = CASE WHEN g.done THEN NULL ELSE c.token END,
    owner = CASE WHEN g.done THEN NULL ELSE c.owner END,
    leased_until = CASE WHEN g.done THEN 0 ELSE c.leased_until END
  FROM given g
  WHERE c.name = g.name AND c.generation = g.generation AND c.part = g.part AND c.token = g.token
    AND c.leased_until > g.now
  RETURNING c.part
)
SELECT part::text FROM moved

-- :lock  ($1 name) -> what a change of its rebuild goes by
SELECT live::text, building::text FROM {schema}.projection WHERE name = $1::text FOR UPDATE

-- :begin  ($1 generation, $2 name)
WITH begun AS (
  UPDATE {schema}.projection SET building = $1::text::int WHERE name = $2::text RETURNING name, parts, building
)
INSERT INTO {schema}.checkpoint (name, generation, part, position)
SELECT b.name, b.building, part, 0 FROM begun b, generate_series(0, b.parts - 1) part

-- :swap  ($1 generation whose parts go, $2 name)
WITH swapped AS (
  UPDATE {schema}.projection p SET live = p.building, building = NULL
  FROM (SELECT $1::text::int AS generation, $2::text AS name) g WHERE p.name = g.name RETURNING g.*
)
DELETE FROM {schema}.checkpoint c USING swapped s WHERE c.name = s.name AND c.generation = s.generation

-- :abandon  ($1 generation, $2 name)
WITH abandoned AS (
  UPDATE {schema}.projection p SET building = NULL
  FROM (SELECT $1::text::int AS generation, $2::text AS name) g WHERE p.name = g.name RETURNING g.*
)
DELETE FROM {schema}.checkpoint c USING abandoned a WHERE c.name = a.name AND c.generation = a.generation
