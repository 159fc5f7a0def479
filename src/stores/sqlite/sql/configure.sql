-- :queues
SELECT name FROM millrace_queue
