-- How far old rows were looked at, so that no pass looks at them again.

create table mirror.retention_walks (
  walk     text primary key,
  position bigint not null
);
comment on table  mirror.retention_walks          is 'The progress of each walk of retention through a table. A walk reads the rows in the order in which they were written.';
comment on column mirror.retention_walks.walk     is 'What is walked. "… that stayed" looks again at rows which had to stay, and starts again at its end; "superseded history" looks at young observations for older ones that they replaced.';
comment on column mirror.retention_walks.position is 'Number of the last row that was looked at.';
