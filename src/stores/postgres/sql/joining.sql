-- join(now, kind, limits, ids, inputs, parent, rest, link) -> at: adds children of a job that waits for others, all of one kind and
-- alike but for their ids and inputs. What goes in and comes out as for insert_jobs; besides
--   parent     its id
--   rest, link             as in `job.rest` and `link.state`, one for all
-- Errors. 23505: an id is not new, or was a child of that job before. MR001: the parent takes no more of them, or not here; or a
-- queue has limits. Nothing was done, and the desk has to do it.
CREATE OR REPLACE FUNCTION {schema}.join_{set}(
  now bigint, kind int, limits int[], ids text, inputs text, parent text, rest text, link text, OUT at bigint)
LANGUAGE plpgsql
{steady}
AS $$
DECLARE
  id_list text[] := string_to_array(ids, chr(30));
  above bigint := (SELECT j.seq FROM {schema}.job j WHERE j.id = parent);
BEGIN
  -- Not while somebody is at the desk, who may have looked for these children and not found them.
  PERFORM pg_advisory_xact_lock_shared({desk});
  -- Others change it too, as their children end: what is read behind this is as they left it.
  PERFORM 1 FROM {schema}.parent p WHERE p.seq = above FOR UPDATE;
  IF NOT EXISTS (
    SELECT 1 FROM {schema}.parent p JOIN {schema}.job j ON j.seq = p.seq
    WHERE p.seq = above AND j.id = join_{set}.parent AND j.state = 4 AND p.waiting > 0 AND p.doomed IS NULL
  ) THEN
    RAISE SQLSTATE 'MR001' USING MESSAGE = 'parent';
  END IF;
  SELECT i.at INTO at FROM {schema}.insert_jobs_{set}(
    now, ARRAY[kind], limits, ids, inputs, NULL, NULL, NULL, NULL, NULL, NULL, true, above, rest) i;
  INSERT INTO {schema}.link (parent, child, state) SELECT above, u.id, link FROM unnest(id_list) u (id);
  UPDATE {schema}.parent p
  SET waiting = p.waiting + cardinality(id_list),
    state = jsonb_set(p.state::jsonb, '{size}', to_jsonb((p.state::json->>'size')::int + cardinality(id_list)))::text
  WHERE p.seq = above;
END
$$;
