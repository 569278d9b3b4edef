-- Twenty questions that a business asks about its orders, each one statement, most of them on reporting.order_facts (one
-- narrow row per order) or reporting.daily (its totals per day); docs/reporting.md explains both. Run them in psql, or paste them into
-- Metabase, Grafana or a notebook. A test checks each answer.
--
-- Days are those of the session's time zone: set timezone = 'Europe/Amsterdam'.

-- How many orders per day and branch did we have in the last 30 days?
select day, branch_name, sum(orders) as orders, bool_and(is_final) as is_final
from reporting.daily
where source_id = 'live' and day >= current_date - 30 and day < current_date
group by day, branch_name
order by day, branch_name;

-- Which part of the orders of each branch was cancelled last month?
select branch_name, count(*) as orders, round(100.0 * avg((status = 'cancelled')::integer), 1) as cancelled_percent
from reporting.order_facts
where source_id = 'live' and pickup_time >= date_trunc('month', now()) - interval '1 month'
  and pickup_time < date_trunc('month', now())
group by branch_name
order by cancelled_percent desc, branch_name;

-- Which deliveries were late yesterday, and by how much?
select reference, branch_name, fleet_name, delivery_time, round(delivery_delay_seconds / 60) as late_minutes
from reporting.order_facts
where source_id = 'live' and delivery_time >= date_trunc('day', now()) - interval '1 day'
  and delivery_time < date_trunc('day', now()) and is_late
order by delivery_delay_seconds desc, reference;

-- How long did it take from creation to delivery, by month?
select date_trunc('month', day)::date as month, sum(timed_deliveries) as deliveries,
  round(sum(delivery_seconds) / nullif(sum(timed_deliveries), 0) / 60) as average_minutes,
  round(100.0 * sum(late_deliveries) / nullif(sum(delivered_orders), 0), 1) as late_percent
from reporting.daily
where source_id = 'live' and day >= current_date - 365
group by 1
order by 1;

-- How long were the orders of the last 30 days in each status?
-- Leaves out a status whose following one was not seen.
select s.status, count(seconds) as orders, round(percentile_cont(0.5) within group (order by seconds)) as median_seconds,
  round(percentile_cont(0.9) within group (order by seconds)) as p90_seconds
from reporting.order_facts f
cross join lateral (values (1, 'created', created_seconds), (2, 'arrived_for_pickup', arrived_for_pickup_seconds),
  (3, 'picked_up', picked_up_seconds), (4, 'arrived_for_delivery', arrived_for_delivery_seconds)) as s (place, status, seconds)
where source_id = 'live' and pickup_time >= now() - interval '30 days'
group by place, s.status
order by place;

-- In which status were last month's orders when it ended?
select status as status_then, count(*) as orders
from reporting.order_timeline
where source_id = 'live' and pickup_time >= date_trunc('month', now()) - interval '1 month'
  and pickup_time < date_trunc('month', now())
  and entered_at < date_trunc('month', now()) and (left_at is null or left_at >= date_trunc('month', now()))
group by 1
order by 2 desc, 1;

-- How reliable were the webhooks, by month?
select date_trunc('month', learned_at)::date as month, count(*) as changes,
  round(100.0 * avg(learned_by_webhook::integer), 2) as by_webhook_percent
from reporting.webhook_reliability
where source_id = 'live' and learned_at >= now() - interval '1 year' and expected and status is distinct from previous_status
group by 1
order by 1;

-- How punctual was each fleet in the last 30 days?
select fleet_name, count(is_late) as deliveries, round(100.0 * avg(is_late::integer), 1) as late_percent,
  round(avg(delivery_delay_seconds) filter (where is_late) / 60) as minutes_late_on_average
from reporting.order_facts
where source_id = 'live' and pickup_time >= now() - interval '30 days' and is_late is not null
group by fleet_name
order by late_percent desc, fleet_name;

-- How late were the deliveries of the last 30 days?
select width_bucket(delivery_delay_seconds, array[0.001, 300.001, 900.001]) as bucket,
  (array['on time', 'up to 5 minutes', 'up to 15 minutes', 'more'])[width_bucket(delivery_delay_seconds, array[0.001, 300.001, 900.001]) + 1]
    as lateness,
  count(*) as deliveries
from reporting.order_facts
where source_id = 'live' and delivery_time >= now() - interval '30 days' and delivery_delay_seconds is not null
group by 1, 2
order by 1;

-- Which hours of the week are the busiest?
select extract(isodow from pickup_time)::integer as weekday,
  extract(hour from pickup_time)::integer as hour, count(*) as orders
from reporting.order_facts
where source_id = 'live' and pickup_time >= now() - interval '4 weeks' and pickup_time < now()
group by 1, 2
order by orders desc, 1, 2
limit 10;

-- At which branches do couriers wait longest for the goods?
-- Leaves out orders of which either status was not seen.
select branch_name, count(*) as pickups, round(avg(arrived_for_pickup_seconds)) as average_seconds
from reporting.order_facts
where source_id = 'live' and pickup_time >= now() - interval '30 days' and picked_up_at is not null
  and arrived_for_pickup_seconds is not null
group by branch_name
order by average_seconds desc, branch_name
limit 10;

-- How far along were last month's orders when they were cancelled?
select case
    when arrived_for_delivery_at < cancelled_at then 'arrived_for_delivery'
    when picked_up_at < cancelled_at then 'picked_up'
    when arrived_for_pickup_at < cancelled_at then 'arrived_for_pickup'
    else 'created'
  end as status_before, count(*) as orders
from reporting.order_facts
where source_id = 'live' and status = 'cancelled' and pickup_time >= date_trunc('month', now()) - interval '1 month'
  and pickup_time < date_trunc('month', now())
group by 1
order by 2 desc;

-- How many orders did each fleet get, by month?
select date_trunc('month', day)::date as month, fleet_name, sum(orders) as orders
from reporting.daily
where source_id = 'live' and day >= current_date - 365
group by 1, 2
order by 1, 2;

-- How does this week compare with the last one, up to the same time?
select pickup_time >= date_trunc('week', now()) as is_this_week, count(*) as orders,
  count(*) filter (where status = 'cancelled') as cancelled, count(*) filter (where is_late) as late
from reporting.order_facts
where source_id = 'live' and (pickup_time >= date_trunc('week', now()) and pickup_time < now()
  or pickup_time >= date_trunc('week', now()) - interval '1 week' and pickup_time < now() - interval '1 week')
group by 1
order by 1 desc;

-- Which open orders are late already?
select reference, status, branch_name, fleet_name, delivery_time, round(extract(epoch from now() - delivery_time) / 60) as late_minutes
from reporting.order_facts
where source_id = 'live' and is_open and delivery_time >= now() - interval '2 days'
  and delivery_time < now()
order by delivery_time, reference;

-- Which orders should have been picked up half an hour ago, and were not?
select reference, status, branch_name, fleet_name, pickup_time
from reporting.order_facts
where source_id = 'live' and is_open and real_pickup_time is null and pickup_time >= now() - interval '2 days'
  and pickup_time < now() - interval '30 minutes'
order by pickup_time, reference;

-- How long was the way from pickup to delivery for each branch last month?
select branch_name, count(*) as deliveries, round(percentile_cont(0.5) within group (order by transit_seconds) / 60) as median_minutes
from reporting.order_facts
where source_id = 'live' and pickup_time >= date_trunc('month', now()) - interval '1 month'
  and pickup_time < date_trunc('month', now()) and transit_seconds is not null
group by branch_name
order by median_minutes desc, branch_name;

-- Which orders went back to an earlier state in the last week?
select reference, status, corrections, updated_at
from reporting.order_facts
where source_id = 'live' and corrections > 0 and pickup_time >= now() - interval '1 week'
order by updated_at desc, reference;

-- How many orders did no event report first, by day?
select pickup_time::date as day, count(*) as orders,
  count(*) filter (where not first_seen_by_event) as first_seen_by_a_read
from reporting.order_facts
where source_id = 'live' and pickup_time >= now() - interval '30 days' and pickup_time < now()
group by 1
order by 1;

-- Are the figures complete?
select s.source_id, s.safe_through, s.exceptions, count(g.since) as gaps
from reporting.sync_status s
left join reporting.coverage_gaps g using (source_id)
where s.source_id = 'live'
group by s.source_id, s.safe_through, s.exceptions;
