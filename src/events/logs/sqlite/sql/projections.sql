-- :declare
INSERT INTO millrace_event_projection (name, parts, live) VALUES (?, ?, 1) ON CONFLICT DO NOTHING

-- :addPart
INSERT INTO millrace_event_checkpoint (name, generation, part, position) VALUES (?, ?, ?, ?)

-- :one
SELECT name, parts, live, building FROM millrace_event_projection WHERE name = ?

-- :all
SELECT name, parts, live, building FROM millrace_event_projection ORDER BY name

-- :checkpoints
SELECT generation, part, position, CASE WHEN leased_until > @now THEN owner END AS owner
FROM millrace_event_checkpoint WHERE name = @name ORDER BY generation, part

-- :canHold
SELECT 1 FROM millrace_event_checkpoint
WHERE name = @name AND generation = @generation AND part = @part AND (token = @token OR NOT @renewal AND leased_until <= @now)

-- :hold  its own lease, or one that nobody has
UPDATE millrace_event_checkpoint SET token = @token, owner = @owner, leased_until = @now + @lease
WHERE name = @name AND generation = @generation AND part = @part AND (token = @token OR NOT @renewal AND leased_until <= @now)
RETURNING position

-- :advance
UPDATE millrace_event_checkpoint SET position = max(position, @position)
WHERE name = @name AND generation = @generation AND part = @part AND token = @token AND leased_until > @now

-- :release
UPDATE millrace_event_checkpoint SET token = NULL, owner = NULL, leased_until = 0
WHERE name = @name AND generation = @generation AND part = @part

-- :build
UPDATE millrace_event_projection SET building = ? WHERE name = ?

-- :swap
UPDATE millrace_event_projection SET live = building, building = NULL WHERE name = ?

-- :dropGeneration
DELETE FROM millrace_event_checkpoint WHERE name = ? AND generation = ?

-- :forget
DELETE FROM millrace_event_projection WHERE name = ?

-- :forgetParts
DELETE FROM millrace_event_checkpoint WHERE name = ?
