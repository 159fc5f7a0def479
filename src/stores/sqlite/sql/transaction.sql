-- :isLeased
SELECT 1 FROM millrace_lease WHERE worker = ? AND seq = ? AND token = ?
