-- Signed statements about what the mirror had: one chain per source, in which each statement names the one before.

create table mirror.certificates (
  source_id text not null references mirror.sources,
  serial    integer not null check (serial > 0),
  kind      text not null check (kind in ('key', 'completeness', 'revocation')),
  since     bigint,
  until     bigint,
  orders    integer,
  breach_id bigint not null default 0,
  revokes   integer,
  digest    bytea not null,
  key_id    text not null,
  envelope  text not null,
  issued_at timestamptz not null default clock_timestamp(),
  primary key (source_id, serial),
  check ((kind = 'key') = (since is null) and (since is null) = (until is null)),
  check ((kind = 'completeness') = (orders is not null)),
  check ((kind = 'revocation') = (revokes is not null))
);
comment on table  mirror.certificates           is 'Signed statements about what the mirror had, one chain per source: certificates of completeness, their revocations, and the keys that sign. Rows are only added.';
comment on column mirror.certificates.source_id is 'The source; references sources.';
comment on column mirror.certificates.serial    is 'Place in the chain of the source, from 1 without a gap.';
comment on column mirror.certificates.kind      is 'key: the statement names the key of the statements after it. completeness: the mirror had every order of a period. revocation: a change was found that an earlier certificate had missed.';
comment on column mirror.certificates.since     is 'Start of the period, inclusive, nanoseconds since 1970; null for a key.';
comment on column mirror.certificates.until     is 'End of the period, exclusive, nanoseconds since 1970; null for a key.';
comment on column mirror.certificates.orders    is 'Number of certified orders; null unless the kind is completeness.';
comment on column mirror.certificates.breach_id is 'The last breach of the source that was known when the statement was made; a later one in its period disproves it.';
comment on column mirror.certificates.revokes   is 'Serial number of the certificate that is revoked; null unless the kind is revocation.';
comment on column mirror.certificates.digest    is 'SHA-256 of the signed payload: what the next statement names.';
comment on column mirror.certificates.key_id    is 'SHA-256 of the public key that signed, in hexadecimal.';
comment on column mirror.certificates.envelope  is 'The statement with its signatures, a DSSE envelope in JSON.';
comment on column mirror.certificates.issued_at is 'When it was made, by the database''s clock.';
create index certificates_by_period on mirror.certificates (source_id, since, until) where kind = 'completeness';

create function mirror.refuse_certificate_change() returns trigger language plpgsql as $$
begin
  raise exception 'statements in mirror.certificates are never changed or removed' using errcode = 'integrity_constraint_violation';
end
$$;
comment on function mirror.refuse_certificate_change is 'Invariant: certificates are only added.';
create trigger certificates_only_added before update or delete or truncate on mirror.certificates
  for each statement execute function mirror.refuse_certificate_change();

create view reporting.certificates with (security_barrier) as
select c.source_id, c.serial, mirror.instant_at(c.since) as since, mirror.instant_at(c.until) as until, c.orders as order_count,
  c.issued_at, encode(c.digest, 'hex') as digest, c.key_id, c.envelope,
  (select min(b.found_at) from mirror.coverage_breaches b
    where b.source_id = c.source_id and b.breach_id > c.breach_id and b.since < c.until and b.until > c.since) as disproved_at,
  (select r.serial from mirror.certificates r
    where r.source_id = c.source_id and r.kind = 'revocation' and r.revokes = c.serial) as revoked_by
from mirror.certificates c
where c.kind = 'completeness' and ((select every_source from mirror.reader) or c.source_id = any ((select sources from mirror.reader)::text[]));
comment on view   reporting.certificates              is 'One row per certificate of completeness: a signed statement that the mirror had every order that the provider showed with an updatedAt in a period. Certificates with a disproved_at are no longer valid.';
comment on column reporting.certificates.source_id    is 'Name of the source.';
comment on column reporting.certificates.serial       is 'Place in the chain of the source''s signed statements.';
comment on column reporting.certificates.since        is 'Start of the period, inclusive.';
comment on column reporting.certificates.until        is 'End of the period, exclusive.';
comment on column reporting.certificates.order_count  is 'Number of certified orders.';
comment on column reporting.certificates.issued_at    is 'When the certificate was issued.';
comment on column reporting.certificates.digest       is 'SHA-256 of the signed payload, in hexadecimal.';
comment on column reporting.certificates.key_id       is 'SHA-256 of the public key that signed, in hexadecimal.';
comment on column reporting.certificates.envelope     is 'The certificate with its signatures, as certificate check reads it.';
comment on column reporting.certificates.disproved_at is 'When a change was found that the certificate had missed; null while it holds.';
comment on column reporting.certificates.revoked_by   is 'Serial number of the signed revocation; null until the leading poller has made one.';

create table mirror.daily_files (
  source_id     text not null references mirror.sources,
  since         bigint not null,
  place         text not null,
  name          text not null,
  serial        integer,
  orders        integer,
  bytes         bigint,
  written_at    timestamptz,
  failing_since timestamptz,
  failed_at     timestamptz,
  failure       text,
  primary key (source_id, since, place),
  check ((serial is null) = (written_at is null)),
  check ((failure is null) = (failing_since is null) and (failure is null) = (failed_at is null))
);
comment on table  mirror.daily_files               is 'The Parquet files of certified days that the poller has written, or failed to write, to a folder or bucket.';
comment on column mirror.daily_files.source_id     is 'The source; references sources.';
comment on column mirror.daily_files.since         is 'Start of the day, nanoseconds since 1970.';
comment on column mirror.daily_files.place         is 'Folder or address of the bucket, as configured.';
comment on column mirror.daily_files.name          is 'Name of the file there.';
comment on column mirror.daily_files.serial        is 'The certificate that the file has; null until one was written.';
comment on column mirror.daily_files.orders        is 'How many orders the file has.';
comment on column mirror.daily_files.bytes         is 'Size of the file.';
comment on column mirror.daily_files.written_at    is 'When it was last written, by the database''s clock.';
comment on column mirror.daily_files.failing_since is 'When the first of the current series of failed attempts ended; null if the last one succeeded.';
comment on column mirror.daily_files.failed_at     is 'When the last of them ended.';
comment on column mirror.daily_files.failure       is 'Why it failed, in one sentence.';

create view reporting.daily_files with (security_barrier) as
select f.source_id, (mirror.instant_at(f.since) at time zone 'UTC')::date as day, f.place, f.name, f.serial, f.orders as order_count, f.bytes, f.written_at,
  c.disproved_at is null as is_valid
from mirror.daily_files f join reporting.certificates c using (source_id, serial)
where (select every_source from mirror.reader) or f.source_id = any ((select sources from mirror.reader)::text[]);
comment on view   reporting.daily_files             is 'One row per daily Parquet file: a day of UTC whose orders were written to a folder or bucket, with the certificate that the file has.';
comment on column reporting.daily_files.source_id   is 'Name of the source.';
comment on column reporting.daily_files.day         is 'The day, in UTC.';
comment on column reporting.daily_files.place       is 'Folder or address of the bucket.';
comment on column reporting.daily_files.name        is 'Name of the file there.';
comment on column reporting.daily_files.serial      is 'Serial number of the certificate that the file has.';
comment on column reporting.daily_files.order_count is 'Number of orders in the file.';
comment on column reporting.daily_files.bytes       is 'Size of the file.';
comment on column reporting.daily_files.written_at  is 'When the file was last written.';
comment on column reporting.daily_files.is_valid    is 'False when a change was found that the file lacks; it is written again once the day is proved again.';
