-- Lines of its log that the run has written: a report may arrive twice, by a renewal and with the outcome.
ALTER TABLE millrace_lease ADD COLUMN logged INTEGER NOT NULL DEFAULT 0;
