-- take(room, picks) -> spans: takes runs out of `ready` by the rule of takeByPicks in core/lanes.ts: first each lane's
-- share, then what is left of the room in the order of the picks. Returns first, last, first, last ... in the order in
-- which they were taken. A part of exchange, whose settings it runs under; room and picks as there.
CREATE OR REPLACE FUNCTION {schema}.take_{set}(room int[], picks bigint[]) RETURNS bigint[]
LANGUAGE plpgsql
AS $$
DECLARE
  -- Lists begin as null: each first use of an expression in a transaction costs about as much as a row.
  runs refcursor;
  n int := cardinality(picks) / 4;
  queues int[]; open_queues int[];
  limited boolean;
  shared int; own int[];
  closed boolean[];   -- of each pick: it has nothing more
  since bigint[]; below bigint[];  -- of each pick: where to go on looking, and up to where
  -- Of each pick: the rest of a run whose start is taken. Written only at the end, because both passes take of it.
  rest_first bigint[]; rest_last bigint[];
  gone_queue int[]; gone_lane int[]; gone_last bigint[];
  spans bigint[];
  q int; l int; mine int; want bigint; wanted bigint; size bigint; first bigint; last bigint;
BEGIN
  FOR p IN 1 .. n LOOP queues[p] := picks[4 * p - 3]; END LOOP;
  SELECT array_agg(u.num) FILTER (WHERE NOT u.paused), bool_or(u.traffic AND NOT u.paused) INTO open_queues, limited
  FROM {schema}.queue u WHERE u.num = ANY (queues);
  IF limited THEN RAISE SQLSTATE 'MR001' USING MESSAGE = 'queue with limits'; END IF;
  IF open_queues IS NULL THEN RETURN spans; END IF;

  FOR round IN 1 .. 5 LOOP
    shared := room[1];
    own := room[2:];
    closed := NULL;
    since := NULL;
    below := NULL;
    FOR pass IN 1 .. 2 LOOP
      FOR p IN 1 .. n LOOP
        CONTINUE WHEN closed[p];
        q := picks[4 * p - 3];
        l := picks[4 * p - 2];
        mine := coalesce(own[l + 1], 0);
        want := shared + mine;
        IF pass = 1 THEN want := least(want, picks[4 * p - 1]); END IF;
        CONTINUE WHEN want <= 0;
        IF q <> ALL (open_queues) THEN
          closed[p] := true;
          CONTINUE;
        END IF;
        wanted := want;

        IF rest_last[p] IS NOT NULL THEN
          size := least(want, rest_last[p] - rest_first[p] + 1);
          spans := spans || ARRAY[rest_first[p], rest_first[p] + size - 1];
          rest_first[p] := rest_first[p] + size;
          want := want - size;
          IF rest_first[p] > rest_last[p] THEN
            gone_queue := gone_queue || q; gone_lane := gone_lane || l; gone_last := gone_last || rest_last[p];
            rest_last[p] := NULL;
          END IF;
        END IF;

        -- From the hint on and, if that is too little, from the start up to it.
        WHILE want > 0 LOOP
          -- One run at a time: a run that is locked and not needed would be missing to others.
          OPEN runs FOR SELECT r.first, r.last FROM {schema}.ready r
            WHERE r.queue = q AND r.lane = l AND r.last >= coalesce(since[p], picks[4 * p])
              AND r.last < coalesce(below[p], 9223372036854775807)
            ORDER BY r.last FOR UPDATE SKIP LOCKED;
          LOOP
            FETCH runs INTO first, last;
            EXIT WHEN NOT FOUND;
            since[p] := last + 1;
            size := least(want, last - first + 1);
            IF first = spans[cardinality(spans)] + 1 THEN
              spans[cardinality(spans)] := first + size - 1;
            ELSE
              spans := spans || ARRAY[first, first + size - 1];
            END IF;
            want := want - size;
            IF first + size > last THEN
              gone_queue := gone_queue || q; gone_lane := gone_lane || l; gone_last := gone_last || last;
            ELSE
              rest_first[p] := first + size;
              rest_last[p] := last;
            END IF;
            EXIT WHEN want = 0;
          END LOOP;
          CLOSE runs;
          EXIT WHEN want = 0 OR below[p] = picks[4 * p] OR picks[4 * p] = 0;
          below[p] := picks[4 * p];
          since[p] := 0;
        END LOOP;

        IF want > 0 THEN closed[p] := true; END IF;
        size := wanted - want;
        own[l + 1] := mine - least(size, mine);
        shared := shared - greatest(0, size - mine);
      END LOOP;
    END LOOP;
    EXIT WHEN cardinality(spans) > 0;

    -- Nothing, or nothing that is not in other hands: then the first of it that comes back is waited for. Whoever waits
    -- holds nothing, so nobody can wait for each other.
    SELECT picks[g.i], picks[g.i + 1] INTO q, l FROM generate_series(1, 4 * n, 4) g (i)
    WHERE picks[g.i] = ANY (open_queues) AND (room[1] > 0 OR coalesce(room[picks[g.i + 1] + 2], 0) > 0)
      AND EXISTS (SELECT 1 FROM {schema}.ready r WHERE r.queue = picks[g.i] AND r.lane = picks[g.i + 1])
    LIMIT 1;
    EXIT WHEN NOT FOUND;
    PERFORM 1 FROM {schema}.ready r WHERE r.queue = q AND r.lane = l ORDER BY r.last LIMIT 1 FOR UPDATE;
  END LOOP;

  IF cardinality(gone_last) > 0 THEN
    DELETE FROM {schema}.ready r USING unnest(gone_queue, gone_lane, gone_last) g (queue, lane, last)
    WHERE r.queue = ANY (ARRAY[g.queue]) AND r.lane = ANY (ARRAY[g.lane]) AND r.last BETWEEN g.last AND g.last;
  END IF;
  FOR p IN 1 .. n LOOP
    IF rest_last[p] IS NOT NULL THEN
      UPDATE {schema}.ready r SET first = rest_first[p]
      WHERE r.queue = picks[4 * p - 3] AND r.lane = picks[4 * p - 2] AND r.last = rest_last[p];
    END IF;
  END LOOP;
  RETURN spans;
END
$$;
