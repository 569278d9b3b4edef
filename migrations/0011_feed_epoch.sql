-- What a restored database asks for is done by the database itself: a process that reads the feed, or writes a part of
-- the mirror, has no right to renumber all of it (config/postgres-roles.sql).

-- Another server counts transactions from elsewhere: changes would be numbered below those that readers have passed,
-- or above everything that is ever readable. So what is there becomes older than all to come, in the order of
-- positions, which is that of each order's changes as well; all of it is committed, as the lock waits for writers.
-- A server that was only taken back in time goes on counting upwards and keeps its numbers, but readers may have seen
-- what is undone: they begin anew as well.
create function mirror.begin_feed_epoch() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  known record;
  present text := mirror.server_identity();
begin
  lock table mirror.changes in share row exclusive mode;
  select * into known from mirror.feed for update;
  if known.server = present then
    return;
  end if;
  if split_part(known.server, '/', 1) <> split_part(present, '/', 1) then
    -- Put back to before the first change that is not yet planned, found by the old numbers: what comes behind it
    -- may be sent a second time, and nothing is missed.
    update mirror.outgoing_cursors o set tx = '1', position = coalesce(
      (select min(c.position) - 1 from mirror.changes c
        where c.source_id = o.source_id and (c.tx, c.position) > (o.tx, o.position)),
      (select max(c.position) from mirror.changes c where c.source_id = o.source_id), 0);
    update mirror.outgoing_cursors set notified_tx = '1' where notified_position > 0;
    update mirror.changes set tx = '1';
    update mirror.orders set feed_tx = '1';
    update mirror.lost_event_cursor set tx = '1';
    update mirror.feed_removals set tx = '1';
  end if;
  update mirror.feed set server = present, begun_at = clock_timestamp(),
    epoch = left(replace(gen_random_uuid()::text, '-', ''), 12);
end
$$;
comment on function mirror.begin_feed_epoch is 'Begins a new epoch of the change feed when the database was restored on another server or to an earlier moment; otherwise does nothing.';
