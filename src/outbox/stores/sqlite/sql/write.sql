-- :row
INSERT INTO millrace_outbox_waiting (kind, slot, seq, id, key, topic, body, headers, at)
SELECT $kind, $slot, coalesce(max(seq), 0) + 1, $id, $key, $topic, $body, $headers, $at
FROM millrace_outbox_waiting WHERE kind = $kind AND slot = $slot
