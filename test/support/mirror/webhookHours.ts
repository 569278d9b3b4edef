/** SQL for the source `live`: changes that events announced an hour or more ago. */
export const announced = (
  changes: number,
  { outcome = "announced", upTo = 5, hoursAgo = 5, sourceId = "live" } = {},
): string => `
  insert into mirror.webhook_hours values
    ('${sourceId}', date_trunc('hour', now()) - interval '${hoursAgo} hours', 'assigned', '${outcome}', ${upTo}, ${changes})
  on conflict (source_id, hour, status, outcome, up_to_seconds) do update set changes = excluded.changes;`;

/** SQL: changes that a poll found so long ago, and no event announced; in the hours' counts, too, if `counted`. */
export const lost = (
  count: number,
  ago: string,
  { counted = true, prefix = "R", status = "assigned" } = {},
): string => `
  insert into mirror.history (source_id, reference, via, verdict, version, status, previous_status, seen_at)
  select 'live', '${prefix}' || n, 'poll', 'applied', mirror.nanos_of(now() - interval '${ago}') - (n % 60) * 1000000000::bigint,
    '${status}', 'created', now() - interval '${ago}'
  from generate_series(1, ${count}) n;
  ${
    counted
      ? `insert into mirror.webhook_hours
  select 'live', date_trunc('hour', now() - interval '${ago}'), '${status}', 'lost', 0, ${count};`
      : ""
  }`;
