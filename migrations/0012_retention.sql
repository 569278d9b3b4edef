-- How far each walk has examined old rows, so that no pass examines them again.

create table mirror.retention_walks (
  walk     text primary key,
  position bigint not null
);
comment on table  mirror.retention_walks          is 'The progress of each walk of retention through a table. A walk reads the rows in the order in which they were written.';
comment on column mirror.retention_walks.walk     is 'What is walked. "… that stayed" examines again the rows that had to stay, and starts over at its end; "superseded history" examines young observations to find the older ones that they replaced.';
comment on column mirror.retention_walks.position is 'Number of the last row that was examined.';
