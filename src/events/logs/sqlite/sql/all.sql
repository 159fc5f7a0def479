-- :last  of a page, when there is a whole one
SELECT position FROM millrace_event WHERE position > ? ORDER BY position LIMIT 1 OFFSET ?

-- :end
SELECT seq FROM sqlite_sequence WHERE name = 'millrace_event'

-- :page
SELECT position, id, stream, version, at, type, schema, data, meta FROM millrace_event
WHERE position > @after AND position <= @through
  AND (@types IS NULL OR type IN (SELECT value FROM json_each(@types)))
  AND (@of = 1 OR slot % @of = @part)
ORDER BY position
