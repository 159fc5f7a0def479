-- :note
-- $1: the consumer, $2: the message's id. Waits for a transaction that is noting the same; a row only when it is new.
INSERT INTO {schema}.received (consumer, id) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING true AS noted
