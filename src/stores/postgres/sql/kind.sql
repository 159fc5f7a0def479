-- kind_number(queue, name, lane) -> int: the number of a kind, made on first use, and of its queue.
-- For a connection of the client's own, outside any transaction: who makes a row holds up all others that want it until
-- it commits. Always the queue first, so that two of them cannot wait for each other.
CREATE OR REPLACE FUNCTION {schema}.kind_number_{set}(queue_name text, kind_name text, kind_lane int,
  OUT kind int, OUT queue int)
LANGUAGE plpgsql
{steady}
AS $$
BEGIN
  queue := {schema}.queue_number_{set}(queue_name);
  LOOP
    SELECT k.num INTO kind FROM {schema}.kind k
    WHERE k.queue = kind_number_{set}.queue AND k.name = kind_name AND k.lane = kind_lane;
    EXIT WHEN FOUND;
    -- Who gives a definition limits tells the queues that have such jobs, and waits for those that are about to.
    PERFORM pg_advisory_xact_lock_shared({barrier});
    INSERT INTO {schema}.kind (queue, name, lane) VALUES (kind_number_{set}.queue, kind_name, kind_lane)
    ON CONFLICT DO NOTHING;
    IF EXISTS (SELECT 1 FROM {schema}.gate g WHERE g.scope = 'job' AND g.owner = '' AND g.name = kind_name AND g.active) THEN
      UPDATE {schema}.queue q SET traffic = true WHERE q.num = kind_number_{set}.queue AND NOT q.traffic;
    END IF;
  END LOOP;
END
$$;

-- queue_number(name) -> int: the same of a queue.
CREATE OR REPLACE FUNCTION {schema}.queue_number_{set}(queue_name text, OUT num int)
LANGUAGE plpgsql
{steady}
AS $$
BEGIN
  LOOP
    SELECT q.num INTO num FROM {schema}.queue q WHERE q.name = queue_name;
    EXIT WHEN FOUND;
    INSERT INTO {schema}.queue (name) VALUES (queue_name) ON CONFLICT DO NOTHING;
  END LOOP;
END
$$;
