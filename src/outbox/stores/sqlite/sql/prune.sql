-- :sent
-- Before when, and how many.
DELETE FROM millrace_outbox_sent WHERE rowid IN (
  SELECT rowid FROM millrace_outbox_sent WHERE sent_at < ? ORDER BY sent_at LIMIT ?)

-- :aside
DELETE FROM millrace_outbox_aside WHERE position IN (
  SELECT position FROM millrace_outbox_aside WHERE aside_at < ? ORDER BY position LIMIT ?)

-- :received
-- Whose, before when, and how many.
DELETE FROM millrace_outbox_received WHERE (consumer, id) IN (
  SELECT consumer, id FROM millrace_outbox_received WHERE consumer = ? AND at < ? ORDER BY at LIMIT ?)
