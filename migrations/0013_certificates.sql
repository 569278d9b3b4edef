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

create view reporting.certificates as
select c.source_id, c.serial, mirror.instant_at(c.since) as since, mirror.instant_at(c.until) as until, c.orders as order_count,
  c.issued_at, encode(c.digest, 'hex') as digest, c.key_id, c.envelope,
  (select min(b.found_at) from mirror.coverage_breaches b
    where b.source_id = c.source_id and b.breach_id > c.breach_id and b.since < c.until and b.until > c.since) as disproved_at,
  (select r.serial from mirror.certificates r
    where r.source_id = c.source_id and r.kind = 'revocation' and r.revokes = c.serial) as revoked_by
from mirror.certificates c
where c.kind = 'completeness';
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
