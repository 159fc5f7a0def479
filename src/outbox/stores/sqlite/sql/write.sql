-- :row
INSERT INTO millrace_outbox_waiting (kind, slot, id, key, topic, body, headers, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
