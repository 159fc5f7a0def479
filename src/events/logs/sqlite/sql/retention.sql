-- :look  at the next events of a category, in the order of its streams
SELECT stream, version FROM millrace_event
WHERE (stream, version) > (@stream, @version) AND stream < @end
ORDER BY stream, version LIMIT 1 OFFSET @offset

-- :surplus  of those up to (toStream, toVersion)
SELECT position, id, stream, version, at, type, schema, data, meta FROM millrace_event e
WHERE (stream, version) > (@stream, @version) AND (stream, version) <= (@toStream, @toVersion) AND stream < @end
  AND (stream >= @begin OR stream = @category) AND at < @before AND position <= @through
  AND CASE WHEN @superseded
    THEN EXISTS (SELECT 1 FROM millrace_event n WHERE n.stream = e.stream AND n.version > e.version)
    -- What came after the newest snapshot is needed to load the stream.
    ELSE e.version <= coalesce((SELECT min(s.version) FROM millrace_event_snapshot s WHERE s.stream = e.stream), e.version) END
ORDER BY stream, version LIMIT @limit

-- :remove
DELETE FROM millrace_event WHERE position IN (SELECT value FROM json_each(?))

-- :erase
DELETE FROM millrace_event WHERE position IN (
  SELECT position FROM millrace_event WHERE stream = ? ORDER BY version LIMIT ?)

-- :isLeft
SELECT 1 FROM millrace_event WHERE stream = ? LIMIT 1

-- :forgetSnapshots
DELETE FROM millrace_event_snapshot WHERE stream = ?
