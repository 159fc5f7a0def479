-- :note
INSERT INTO millrace_outbox_received (consumer, id, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING
