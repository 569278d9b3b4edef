/** Replaced text of a file of src. */
export interface Edit {
  /** Below src. */
  readonly in: string;
  /** Occurs exactly once; otherwise the variant is refused, because it would no longer be the named flaw. */
  readonly find: string;
  readonly replace: string;
}

/** A deliberate flaw, and the test that must fail. */
export interface Variant extends Edit {
  readonly flaw: string;
  /** Replaced as well. */
  readonly and?: readonly Edit[];
  /** The file of the test, below `test` and without its ending. */
  readonly by: string;
  readonly test: string;
}

export const editsOf = (variant: Variant): readonly Edit[] => [variant, ...(variant.and ?? [])];
export const testFileOf = ({ by }: Variant): string => `test/${by}.test.ts`;

/** The most likely flaws of such a mirror; each exists in a product in use today. */
export const VARIANTS: readonly Variant[] = [
  {
    flaw: "no dedupe: every delivery is an event of its own",
    in: "receive/receiver.ts",
    find: "const eventId = chooseEventId({ bodyId: readEventId(body), bodyHash, headerId: verdict.id });",
    replace:
      "const eventId = chooseEventId({ bodyId: readEventId(body), bodyHash, headerId: verdict.id }) + String(Math.random());",
    by: "integration/receive/receive",
    test: "accepts the same event again, without a second row or notification",
  },
  {
    flaw: ">= for > in the guard in SQL",
    in: "apply/applyBatch.sql.ts",
    find: "      > ${keyOf(stored,",
    replace: "      >= ${keyOf(stored,",
    and: [
      {
        in: "apply/applyBatch.sql.ts",
        find: "then ${stored}.settled and",
        replace: "then false and",
      },
    ],
    by: "integration/apply/apply",
    test: "the guard in SQL agrees with its model on any sequence of observations",
  },
  {
    flaw: "the same state with fewer digits is another one",
    in: "apply/applyBatch.sql.ts",
    find: "`${one}.hash = ${other}.hash and mirror.same_instant(${one}.version, ${other}.version)`",
    replace: "`${one}.hash = ${other}.hash and ${one}.version = ${other}.version`",
    by: "integration/proof/proofSchedules",
    test: "ends as the provider on",
  },
  {
    flaw: "a claim wins over a later read",
    in: "domain/order/observation.ts",
    find: "  if (horizon !== null) return horizon;",
    replace: "",
    by: "unit/domain/claimsAndReads",
    test: "a read beyond the margin of every observation produces the state that the provider shows",
  },
  {
    flaw: "a stored horizon ahead of the present counts",
    in: "apply/applyBatch.sql.ts",
    find: "keyOf(stored, { horizon: unlessAhead(`${stored}.horizon`) })",
    replace: "keyOf(stored, { horizon: `${stored}.horizon` })",
    by: "integration/apply/apply",
    test: "the guard in SQL agrees with its model on any sequence of observations",
  },
  {
    flaw: "the provider's clock is believed whatever it says",
    in: "provider/providerClock.ts",
    find: "ours === undefined || distance(origin, ours) <= TRUST",
    replace: "ours === undefined || origin !== undefined",
    by: "integration/proof/wrongClock",
    test: "a provider's clock that is a day ahead for two minutes proves and freezes nothing",
  },
  {
    flaw: "what lost to a batch beside it is refuted",
    in: "apply/applyBatch.sql.ts",
    find: "coalesce(${row}.horizon, ${row}.version) <= ${horizon}, false)",
    replace: "(${horizon} is null or true), false)",
    by: "integration/apply/apply",
    test: "calls a true event that lost to a batch beside it stale: only a read refutes",
  },
  {
    flaw: "a horizon without a margin",
    in: "domain/order/observation.ts",
    find: "  return addSeconds(requestedAt, -marginSeconds);",
    replace: "  return addSeconds(requestedAt, -0 * marginSeconds);",
    by: "unit/domain/claimsAndReads",
    test: "nothing within the margin is ever refuted, so a true event survives a lagging read",
  },
  {
    flaw: "progress of a long walk kept in memory",
    in: "poll/coverage.sql.ts",
    find: "  if (!rows[0].advanced) throw new WalkForgottenError(",
    replace: "  if (!rows[0].held) throw new WalkForgottenError(",
    by: "integration/poll/pollLedger",
    test: "the ledger does not know a page of a long walk whose earlier pages it has lost",
  },
  {
    flaw: "a contradiction by a concurrent writer goes unnoticed",
    in: "apply/applyBatch.sql.ts",
    find: "conflict and not resolved or lost as doubtful",
    replace: "conflict and not resolved as doubtful",
    by: "integration/apply/apply",
    test: "that contradict each other request a refetch even when they are decided concurrently",
  },
  {
    flaw: "a list that omits known orders is proof",
    in: "poll/coverage.sql.ts",
    find: "  select * from waiting w where exists (",
    replace: "  select * from waiting w where false and exists (",
    by: "integration/proof/proofSchedules",
    test: "ends as the provider on",
  },
  {
    flaw: "a key of another organization goes unnoticed",
    in: "sources/recordBranches.sql.ts",
    find: "or s.branch_ids && shown.ids",
    replace: "or true",
    by: "integration/sources/otherOrganization",
    test: "tolerates an empty list of branches, a failing request, and branches that come and go",
  },
  {
    flaw: "a write that goes to another organization",
    in: "mirror/web.ts",
    find: "      await assertOwnKey(pool, source, logger);\n",
    replace: "",
    by: "integration/sources/otherOrganization",
    test: "forwards no write with a key that the poller found to be of another organization",
  },
  {
    flaw: "acknowledges before the commit",
    in: "receive/receiver.ts",
    find: "const { seq } = await store(event);",
    replace: "void store(event).catch(() => undefined);\n    const seq = 1;",
    by: "integration/receive/receiveOutage",
    test: "while the inbox cannot be written answers 200 only once the event is committed",
  },
  {
    flaw: "treats a failed commit as stored",
    in: "receive/groupCommit.ts",
    find: 'failAll(batch, new UnavailableError("The inbox could not be written.", { cause: error }));',
    replace: "finishStored(batch, []);",
    by: "unit/receive/groupCommitModel",
    test: "reports only stored events as stored, keeps its limits, and answers each once, in any sequence of events",
  },
  {
    flaw: "a walk from offset to offset",
    in: "domain/window/scan.ts",
    find: "if (scan.offset > 0 && !overlapsPreviousPage(scan, rows)) return stepFurtherBack(scan);",
    replace: "",
    and: [
      {
        in: "domain/window/scan.ts",
        find: "scan: { offset: end - stepBack, end,",
        replace: "scan: { offset: end, end,",
      },
    ],
    by: "unit/domain/walkAgainstNastyProvider",
    test: "a walk over the pages of a nasty provider shows every order that stays in the window while it is proved, with any sort, ties, bounds, lateness and load",
  },
  {
    flaw: "a few shared rows with the previous page are enough",
    in: "domain/window/scan.ts",
    find: "return countBetween(shared) * 2 >= countBetween(tail);",
    replace: "return true;",
    by: "unit/domain/walk",
    test: "does not accept two known rows as proof where it should know many",
  },
  {
    flaw: "one shared row is enough as an anchor among equal timestamps",
    in: "domain/window/ties.ts",
    find: "return shared * 2 >= tail.length - start;",
    replace: "return shared > 0;",
    by: "unit/domain/walk",
    test: "does not accept one known row as an anchor where there should be many",
  },
  {
    flaw: "assumes that a list is sorted without a check",
    in: "domain/window/scan.ts",
    find: 'if (direction === "unsorted") return { kind: "lost" };',
    replace: 'if (direction === "unsorted") return { kind: "read" };',
    by: "unit/domain/walkAgainstNastyProvider",
    test: "a walk over the pages of a nasty provider shows every order that stays in the window while it is proved, with any sort, ties, bounds, lateness and load",
  },
  {
    flaw: "the greatest updatedAt as the cursor",
    in: "poll/coverage.sql.ts",
    find: "update mirror.poll_state set polled_through = $5::bigint from held",
    replace:
      "update mirror.poll_state set polled_through = (select coalesce(max(version), $5::bigint) from mirror.orders where source_id = $4) from held",
    and: [
      {
        in: "poll/coverage.sql.ts",
        find: "update mirror.poll_state p set polled_through = $5::bigint,",
        replace:
          "update mirror.poll_state p set polled_through = (select coalesce(max(version), $5::bigint) from mirror.orders where source_id = $4),",
      },
    ],
    by: "integration/poll/poll",
    test: "a row stamped in the future moves no cursor, and is read when its time comes",
  },
  {
    flaw: "a walked window is a proof at once",
    in: "poll/coverage.sql.ts",
    find: "safe_through = greatest(p.safe_through, (select upper(span) from run where upper(span) >= $6::bigint)),",
    replace:
      "safe_through = greatest(p.safe_through, (select upper(span) from run where $6::bigint is not null)),",
    by: "integration/poll/pollLedger",
    test: "the ledger makes proofs of walked windows only with a head sweep that reaches back to their end",
  },
  {
    flaw: "an open window is read in whatever direction its pages have",
    in: "domain/window/walk.ts",
    find: 'if (walk.open === true && progress.scan.direction === "descending") return cut(walk, range);',
    replace: "",
    by: "unit/domain/walkAgainstNastyProvider",
    test: "a walk over the pages of a nasty provider shows every order that was there when it began, if the window has no end and it is proved",
  },
  {
    flaw: "a part of a breach that is proved again closes it",
    in: "poll/coverage.sql.ts",
    find: "int8range(b.since, b.until) <@ (select range_agg(span)",
    replace: "int8range(b.since, b.until) && (select range_agg(span)",
    by: "integration/poll/pollLedger",
    test: "the ledger closes a breach only when all of its period is proved again",
  },
  {
    flaw: "windows of other sources count",
    in: "poll/coverage.sql.ts",
    find: "  where c.source_id = $4 and c.proved and (c.until > ground.reached",
    replace: "  where $4 is not null and c.proved and (c.until > ground.reached",
    by: "integration/poll/pollLedger",
    test: "the ledger counts no window of another source, whatever it is",
  },
  {
    flaw: "an unsorted batch",
    in: "domain/order/observation.ts",
    find: "    .sort(([left], [right]) => (left < right ? -1 : 1))\n",
    replace: "",
    by: "unit/domain/observation",
    test: "fold keeps the greatest of each order, once, in a fixed sequence",
  },
  {
    flaw: "versions as Date",
    in: "domain/order/instant.ts",
    find: 'return BigInt(seconds) * NANOS_PER_SECOND + BigInt(fraction.padEnd(9, "0"));',
    replace:
      "return instantFromMillis(new Date(seconds * 1_000 + Number(`0.${fraction || 0}`) * 1_000).getTime());",
    by: "unit/domain/instant",
    test: "formatInstant is parsed back exactly",
  },
  {
    flaw: "a signature over the parsed and rewritten body",
    in: "receive/receiver.ts",
    find: "const verdict = verifier.verify({ headersDistinct: headers, body, nowSeconds });",
    replace:
      "let rewritten = body;\n  try {\n    rewritten = Buffer.from(JSON.stringify(JSON.parse(body.toString())));\n  } catch {}\n  const verdict = verifier.verify({ headersDistinct: listHeaders(req), body: rewritten, nowSeconds });",
    by: "integration/receive/receive",
    test: "accepts a signed event: commits it byte for byte, answers 200 and notifies a worker",
  },
  {
    flaw: "a feed by position alone",
    in: "changes/changeFeed.sql.ts",
    find: " and c.position <= $5::bigint",
    replace: " and $5::bigint is not null",
    by: "integration/changes/changeFeed",
    test: "a transaction that is still open hides its own change and later ones, but no earlier one",
  },
  {
    flaw: "a lease without a fence",
    in: "database/leases.sql.ts",
    find: "  where name = $1 and holder = $2 and fence = $3::bigint and expires_at > clock_timestamp()\n  for share",
    replace: "  where name = $1 and holder = $2 and $3::bigint > 0\n  for share",
    by: "integration/poll/leaseModel",
    test: "has one holder at a time and lets nobody else renew, write or release, in any sequence of events",
  },
  {
    flaw: "a pace that counts from the start of a request, not from its answer",
    in: "provider/budget.ts",
    find: "await send().then(resolve, reject);",
    replace: "void send().then(resolve, reject);",
    by: "unit/provider/budget",
    test: "stay within every policy in every sliding window of the provider, are all sent, and the more urgent of a policy first",
  },
  {
    flaw: "a request a second before the end of Retry-After",
    in: "provider/budget.ts",
    find: "return Math.max(0, blockedUntilMs() - clock.monotonicMs());",
    replace: "return Math.max(0, blockedUntilMs() - 1_000 - clock.monotonicMs());",
    by: "unit/provider/budget",
    test: "sends nothing of a refused policy before the end of Retry-After, to the millisecond",
  },
  {
    flaw: "a read stamped with the time of its write",
    in: "poll/windows.ts",
    find: "const time = { requestedAt: page.requestedAt, marginSeconds };",
    replace: "const time = { requestedAt: page.requestedAt + 3_600_000_000_000n, marginSeconds };",
    by: "integration/poll/readInstants",
    test: "stamps a read with the instant of its request, however long the answer takes",
  },
  {
    flaw: "a lease trusted from its answer on",
    in: "poll/leadership.ts",
    find: "term.trustedUntilMs = askedMs + ttlMs;",
    replace: "term.trustedUntilMs = clock.monotonicMs() + ttlMs;",
    by: "integration/poll/leadership",
    test: "is trusted from the instant before its renewal was requested",
  },
  {
    flaw: "retention reports the first change that it removed in a step, not the last",
    in: "retention/retention.sql.ts",
    find: "select source_id, max(position) as position from gone",
    replace: "select source_id, min(position) as position from gone",
    by: "integration/retention/retention",
    test: "of the feed, and every reader within the removed rows must start again",
  },
  {
    flaw: "what waits for our worker was lost",
    in: "poll/lostEvents.sql.ts",
    find: "coalesce(i.received_at, h.seen_at)",
    replace: "h.seen_at",
    by: "integration/poll/lostEvents",
    test: "names the waiting of applied events as ours",
  },
  {
    flaw: "concurrent planners of outgoing webhooks",
    in: "outgoing/outgoingDeliveries.sql.ts",
    find: "where endpoint_id = $1 and definition = $6 for update skip locked",
    replace: "where endpoint_id = $1 and definition = $6",
    by: "integration/outgoing/outgoing",
    test: "are not planned by a second process before the first has committed its plan",
  },
  {
    flaw: "the late end of a message that was sent again",
    in: "outgoing/outgoingEndpoints.sql.ts",
    find: "delivery_id = default, state",
    replace: "state",
    by: "integration/outgoing/outgoing",
    test: "a late answer to the former sending changes nothing",
  },
  {
    flaw: "outgoing webhooks whose process is gone",
    in: "outgoing/outgoingDeliveries.sql.ts",
    find: "(d.taken_until is null or d.taken_until <= (select now from room))",
    replace: "d.taken_until is null",
    by: "integration/outgoing/outgoing",
    test: "are sent again when the process that took them is gone",
  },
  {
    flaw: "a list of endpoints that takes turns with another one",
    in: "outgoing/outgoingEndpoints.sql.ts",
    find: "where e.definition = excluded.definition or e.listed_at < clock_timestamp() - ${LISTED_FOR}",
    replace: "where e.definition is not null or ${LISTED_FOR} is null",
    by: "integration/outgoing/outgoing",
    test: "does not flap between two processes with different lists",
  },
  {
    flaw: "ordered endpoints get changes before earlier ones of the same order",
    in: "outgoing/outgoingDeliveries.sql.ts",
    find: "where o.endpoint_id = d.endpoint_id and o.source_id",
    replace: "where false and o.endpoint_id = d.endpoint_id and o.source_id",
    by: "integration/outgoing/outgoing",
    test: "gets the changes of each order one after the other, with failures and two processes",
  },
  {
    flaw: "the stream says complete while changes are unsent",
    in: "changes/changeFeed.sql.ts",
    find: "const given = hasMore ? (changes.at(-1)?.position ?? 0n) : fence;",
    replace: "const given = fence;",
    by: "integration/api/changeStream",
    test: "says that every change was sent only behind the last of several sections",
  },
  {
    flaw: "retention never checks replaced rows again",
    in: "retention/retention.sql.ts",
    find: "where source_id = concerned.source_id and reference = concerned.reference offset 0",
    replace:
      "where history_id = any (array(select id from old)) and reference = concerned.reference offset 0",
    by: "integration/retention/retention",
    test: "of the history, except the observation that each order shows",
  },
  {
    flaw: "an erasure that forgets events whose decisions retention removed",
    in: "retention/erasure.sql.ts",
    find: "    union select unnest($3::bigint[])\n",
    replace: "    union select unnest($3::bigint[]) where false\n",
    by: "integration/retention/erasure",
    test: "is erased from an event whose decision is no longer in the history",
  },
  {
    flaw: "an abandoned statement keeps waiting on the server",
    in: "database/database.ts",
    find: "  cancelAbandoned(pool);\n",
    replace: "  void cancelAbandoned;\n",
    by: "integration/receive/synchronousStandby",
    test: "a stalled standby uses no more connections than a pool has",
  },
  {
    flaw: "a duplicate that no standby has is acknowledged",
    in: "receive/inbox.sql.ts",
    find: "where (select count(*) from stored) < cardinality",
    replace: "where false and (select count(*) from stored) < cardinality",
    by: "integration/receive/synchronousStandby",
    test: "a stalled standby uses no more connections than a pool has",
  },
];
