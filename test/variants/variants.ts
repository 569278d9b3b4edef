/** A deliberate flaw: replaced parts of src, and the test that must fail. */
export interface Variant {
  readonly name: string;
  readonly edits: readonly Edit[];
  readonly caughtBy: {
    readonly file: string;
    readonly test: string;
  };
}

interface Edit {
  /** Below src. */
  readonly file: string;
  /** Occurs exactly once; otherwise the variant is refused, because it would no longer be the named flaw. */
  readonly find: string;
  readonly replace: string;
}

/** The most likely flaws of such a mirror; each exists in a product in use today. */
export const VARIANTS: readonly Variant[] = [
  {
    name: "no dedupe: every delivery is an event of its own",
    edits: [
      {
        file: "receive/admit.ts",
        find: "const eventId = chooseEventId({ bodyId: readEventId(body), bodyHash, headerId: verdict.id });",
        replace:
          "const eventId = chooseEventId({ bodyId: readEventId(body), bodyHash, headerId: verdict.id }) + String(Math.random());",
      },
    ],
    caughtBy: {
      file: "test/integration/receive/receive.test.ts",
      test: "called by http.createServer accepts the same event again with 200, without a second row or notification",
    },
  },
  {
    name: ">= for > in the rule",
    edits: [
      {
        file: "domain/order/observation.ts",
        find: "if (compareKeys(seen, known) <= 0) return",
        replace: "if (compareKeys(seen, known) < 0) return",
      },
    ],
    caughtBy: {
      file: "test/unit/domain/observation.test.ts",
      test: "decide never lowers the stored key, and repeating an observation does nothing",
    },
  },
  {
    name: ">= for > in the guard in SQL",
    edits: [
      {
        file: "apply/applyBatch.sql.ts",
        find: "      > ${keyOf(stored,",
        replace: "      >= ${keyOf(stored,",
      },
      {
        file: "apply/applyBatch.sql.ts",
        find: "and ${unlessAhead(`${stored}.horizon`)} is not distinct from ${incoming}.horizon)`",
        replace: "and false)`",
      },
    ],
    caughtBy: {
      file: "test/integration/apply/apply.test.ts",
      test: "the guard in SQL agrees with domain/observation decide on any sequence of observations",
    },
  },
  {
    name: "a claim wins over a later read",
    edits: [
      {
        file: "domain/order/observation.ts",
        find: "  if (horizon !== null) return horizon;",
        replace: "",
      },
    ],
    caughtBy: {
      file: "test/unit/domain/claimsAndReads.test.ts",
      test: "a read beyond the margin of every observation produces the state that the provider shows",
    },
  },
  {
    name: "a stored horizon ahead of the present counts",
    edits: [
      {
        file: "apply/applyBatch.sql.ts",
        find: "keyOf(stored, { horizon: unlessAhead(`${stored}.horizon`) })",
        replace: "keyOf(stored, { horizon: `${stored}.horizon` })",
      },
    ],
    caughtBy: {
      file: "test/integration/apply/apply.test.ts",
      test: "the guard in SQL agrees with domain/observation decide on any sequence of observations",
    },
  },
  {
    name: "the provider's clock is believed whatever it says",
    edits: [
      {
        file: "provider/providerClock.ts",
        find: "ours === undefined || distance(origin, ours) <= TRUST",
        replace: "ours === undefined || origin !== undefined",
      },
    ],
    caughtBy: {
      file: "test/integration/proof/wrongClock.test.ts",
      test: "a provider's clock that is a day ahead for two minutes proves and freezes nothing",
    },
  },
  {
    name: "what lost to a batch beside it is refuted",
    edits: [
      {
        file: "apply/applyBatch.sql.ts",
        find: "coalesce(${row}.horizon, ${row}.version) <= ${horizon}, false)",
        replace: "(${horizon} is null or true), false)",
      },
    ],
    caughtBy: {
      file: "test/integration/apply/apply.test.ts",
      test: "calls a true event that lost to a batch beside it stale: only a read refutes",
    },
  },
  {
    name: "a horizon without a margin",
    edits: [
      {
        file: "domain/order/observation.ts",
        find: "  return addSeconds(requestedAt, -marginSeconds);",
        replace: "  return addSeconds(requestedAt, -0 * marginSeconds);",
      },
    ],
    caughtBy: {
      file: "test/unit/domain/claimsAndReads.test.ts",
      test: "nothing within the margin is ever refuted, so a true event survives a lagging read",
    },
  },
  {
    name: "progress of a long walk kept in memory",
    edits: [
      {
        file: "poll/coverage.sql.ts",
        find: "  if (!rows[0].advanced) throw new WalkForgottenError(",
        replace: "  if (!rows[0].held) throw new WalkForgottenError(",
      },
    ],
    caughtBy: {
      file: "test/integration/poll/pollLedger.test.ts",
      test: "the ledger does not know a page of a long walk whose earlier pages it has lost",
    },
  },
  {
    name: "a contradiction by a concurrent writer goes unnoticed",
    edits: [
      {
        file: "apply/applyBatch.sql.ts",
        find: "conflict and not resolved or lost as doubtful",
        replace: "conflict and not resolved as doubtful",
      },
    ],
    caughtBy: {
      file: "test/integration/apply/apply.test.ts",
      test: "that contradict each other request a refetch even when they are decided concurrently",
    },
  },
  {
    name: "a list that omits known orders is proof",
    edits: [
      {
        file: "poll/coverage.sql.ts",
        find: "  select * from waiting w where exists (",
        replace: "  select * from waiting w where false and exists (",
      },
    ],
    caughtBy: {
      file: "test/integration/proof/proofSchedules.test.ts",
      test: "ends as the provider on",
    },
  },
  {
    name: "a key of another organization goes unnoticed",
    edits: [
      {
        file: "apply/recordBranches.sql.ts",
        find: "or s.branch_ids && shown.ids",
        replace: "or true",
      },
    ],
    caughtBy: {
      file: "test/integration/poll/otherOrganization.test.ts",
      test: "tolerates an empty list of branches, a failing request, and branches that come and go",
    },
  },
  {
    name: "a write that goes to another organization",
    edits: [{ file: "roles/web.ts", find: "      await assertOwnKey(pool, source, logger);\n", replace: "" }],
    caughtBy: {
      file: "test/integration/poll/otherOrganization.test.ts",
      test: "forwards no write with a key that the poller found to be of another organization",
    },
  },
  {
    name: "acknowledges before the commit",
    edits: [
      {
        file: "receive/receiver.ts",
        find: "const { seq } = await store(event);",
        replace: "void store(event).catch(() => undefined);\n    const seq = 1;",
      },
    ],
    caughtBy: {
      file: "test/integration/receive/receiveOutage.test.ts",
      test: "while the inbox cannot be written answers 200 only once the event is committed",
    },
  },
  {
    name: "treats a failed commit as stored",
    edits: [
      {
        file: "receive/groupCommit.ts",
        find: 'if (classifyDatabaseError(error) !== "refused-content") failAll(batch, unavailable(error));',
        replace: 'if (classifyDatabaseError(error) !== "refused-content") finishStored(batch, []);',
      },
    ],
    caughtBy: {
      file: "test/unit/receive/groupCommitModel.test.ts",
      test: "reports only stored events as stored, keeps its limits, and answers each once, in any sequence of events",
    },
  },
  {
    name: "a walk from offset to offset",
    edits: [
      {
        file: "domain/window/scan.ts",
        find: "if (scan.offset > 0 && !overlapsPreviousPage(scan, rows)) return stepFurtherBack(scan);",
        replace: "",
      },
      {
        file: "domain/window/scan.ts",
        find: "scan: { offset: end - stepBack, end,",
        replace: "scan: { offset: end, end,",
      },
    ],
    caughtBy: {
      file: "test/unit/domain/walkAgainstNastyProvider.test.ts",
      test: "a walk over the pages of a nasty provider shows every order that stays in the window while it is proved, with any sort, ties, bounds, lateness and load",
    },
  },
  {
    name: "a few shared rows with the previous page are enough",
    edits: [
      {
        file: "domain/window/scan.ts",
        find: "return countBetween(shared) * 2 >= countBetween(tail);",
        replace: "return true;",
      },
    ],
    caughtBy: {
      file: "test/unit/domain/walk.test.ts",
      test: "does not accept two known rows as proof where it should know many",
    },
  },
  {
    name: "one shared row is enough as an anchor among equal timestamps",
    edits: [
      {
        file: "domain/window/ties.ts",
        find: "return shared * 2 >= tail.length - start;",
        replace: "return shared > 0;",
      },
    ],
    caughtBy: {
      file: "test/unit/domain/walk.test.ts",
      test: "does not accept one known row as an anchor where there should be many",
    },
  },
  {
    name: "assumes that a list is sorted without a check",
    edits: [
      {
        file: "domain/window/scan.ts",
        find: 'if (direction === "unsorted") return { kind: "lost" };',
        replace: 'if (direction === "unsorted") return { kind: "read" };',
      },
    ],
    caughtBy: {
      file: "test/unit/domain/walkAgainstNastyProvider.test.ts",
      test: "a walk over the pages of a nasty provider shows every order that stays in the window while it is proved, with any sort, ties, bounds, lateness and load",
    },
  },
  {
    name: "the greatest updatedAt as the cursor",
    edits: [
      {
        file: "poll/coverage.sql.ts",
        find: "update mirror.poll_state set polled_through = $5::bigint from held",
        replace:
          "update mirror.poll_state set polled_through = (select coalesce(max(version), $5::bigint) from mirror.orders where source_id = $4) from held",
      },
      {
        file: "poll/coverage.sql.ts",
        find: "update mirror.poll_state p set polled_through = $5::bigint,",
        replace:
          "update mirror.poll_state p set polled_through = (select coalesce(max(version), $5::bigint) from mirror.orders where source_id = $4),",
      },
    ],
    caughtBy: {
      file: "test/integration/poll/poll.test.ts",
      test: "a row stamped in the future moves no cursor, and is read when its time comes",
    },
  },
  {
    name: "a walked window is a proof at once",
    edits: [
      {
        file: "poll/coverage.sql.ts",
        find: "safe_through = greatest(p.safe_through, (select upper(span) from run where upper(span) >= $6::bigint)),",
        replace:
          "safe_through = greatest(p.safe_through, (select upper(span) from run where $6::bigint is not null)),",
      },
    ],
    caughtBy: {
      file: "test/integration/poll/pollLedger.test.ts",
      test: "the ledger makes proofs of walked windows only with a head sweep that reaches back to their end",
    },
  },
  {
    name: "an open window is read in whatever direction its pages have",
    edits: [
      {
        file: "domain/window/walk.ts",
        find: 'if (walk.open === true && progress.scan.direction === "descending") return cut(walk, range);',
        replace: "",
      },
    ],
    caughtBy: {
      file: "test/unit/domain/walkAgainstNastyProvider.test.ts",
      test: "a walk over the pages of a nasty provider shows every order that was there when it began, if the window has no end and it is proved",
    },
  },
  {
    name: "a part of a breach that is proved again closes it",
    edits: [
      {
        file: "poll/coverage.sql.ts",
        find: "int8range(b.since, b.until) <@ (select range_agg(span)",
        replace: "int8range(b.since, b.until) && (select range_agg(span)",
      },
    ],
    caughtBy: {
      file: "test/integration/poll/pollLedger.test.ts",
      test: "the ledger closes a breach only when all of its period is proved again",
    },
  },
  {
    name: "windows of other sources count",
    edits: [
      {
        file: "poll/coverage.sql.ts",
        find: "  where c.source_id = $4 and c.proved and (c.until > ground.reached",
        replace: "  where $4 is not null and c.proved and (c.until > ground.reached",
      },
    ],
    caughtBy: {
      file: "test/integration/poll/pollLedger.test.ts",
      test: "the ledger counts no window of another source, whatever it is",
    },
  },
  {
    name: "an unsorted batch",
    edits: [
      {
        file: "domain/order/observation.ts",
        find: "    .sort(([left], [right]) => (left < right ? -1 : 1))\n",
        replace: "",
      },
    ],
    caughtBy: {
      file: "test/unit/domain/observation.test.ts",
      test: "fold keeps the greatest of each order, once, in a fixed sequence",
    },
  },
  {
    name: "versions as Date",
    edits: [
      {
        file: "domain/order/instant.ts",
        find: 'return BigInt(seconds) * NANOS_PER_SECOND + BigInt(fraction.padEnd(9, "0"));',
        replace:
          "return instantFromMillis(new Date(seconds * 1_000 + Number(`0.${fraction || 0}`) * 1_000).getTime());",
      },
    ],
    caughtBy: {
      file: "test/unit/domain/instant.test.ts",
      test: "formatInstant is parsed back exactly",
    },
  },
  {
    name: "a signature over the parsed and rewritten body",
    edits: [
      {
        file: "receive/admit.ts",
        find: "const verdict = verifier.verify({ headersDistinct: listHeaders(req), body, nowSeconds });",
        replace: `let rewritten = body;
  try {
    rewritten = Buffer.from(JSON.stringify(JSON.parse(body.toString())));
  } catch {}
  const verdict = verifier.verify({ headersDistinct: listHeaders(req), body: rewritten, nowSeconds });`,
      },
    ],
    caughtBy: {
      file: "test/integration/receive/receive.test.ts",
      test: "called by http.createServer accepts a signed event: commits it byte for byte, answers 200 and notifies a worker",
    },
  },
  {
    name: "a feed by position alone",
    edits: [
      {
        file: "changes/changeFeed.sql.ts",
        find: " and c.position <= $5::bigint",
        replace: " and $5::bigint is not null",
      },
    ],
    caughtBy: {
      file: "test/integration/changes/changeFeed.test.ts",
      test: "a transaction that is still open hides its own change and later ones, but no earlier one",
    },
  },
  {
    name: "a lease without a fence",
    edits: [
      {
        file: "database/leases.sql.ts",
        find: "  where name = $1 and holder = $2 and fence = $3::bigint and expires_at > clock_timestamp()\n  for share",
        replace: "  where name = $1 and holder = $2 and $3::bigint > 0\n  for share",
      },
    ],
    caughtBy: {
      file: "test/integration/poll/leaseModel.test.ts",
      test: "has one holder at a time and lets nobody else renew, write or release, in any sequence of events",
    },
  },
  {
    name: "a read stamped with the time of its write",
    edits: [
      {
        file: "poll/windows.ts",
        find: "const time = { requestedAt: page.requestedAt, marginSeconds };",
        replace: "const time = { requestedAt: page.requestedAt + 3_600_000_000_000n, marginSeconds };",
      },
    ],
    caughtBy: {
      file: "test/integration/poll/readInstants.test.ts",
      test: "stamps a read with the instant of its request, however long the answer takes",
    },
  },
  {
    name: "a lease trusted from its answer on",
    edits: [
      {
        file: "poll/leadership.ts",
        find: "term.trustedUntilMs = askedMs + ttlMs;",
        replace: "term.trustedUntilMs = clock.monotonicMs() + ttlMs;",
      },
    ],
    caughtBy: {
      file: "test/integration/poll/leadership.test.ts",
      test: "is trusted from the instant before its renewal was requested",
    },
  },
  {
    name: "a signature header's value in the log",
    edits: [
      {
        file: "receive/receiver.ts",
        find: "return Object.keys(req.headers)",
        replace: 'return Object.entries(req.headers).map((entry) => entry.join(" "))',
      },
    ],
    caughtBy: {
      file: "test/integration/receive/receive.test.ts",
      test: "logs a flood of bad signatures once, with header names but no values",
    },
  },
  {
    name: "retention reports the first change that it removed in a step, not the last",
    edits: [
      {
        file: "retention/retention.sql.ts",
        find: "select source_id, max(position) as position from gone",
        replace: "select source_id, min(position) as position from gone",
      },
    ],
    caughtBy: {
      file: "test/integration/retention/retention.test.ts",
      test: "of the feed, and every reader within the removed rows must start again",
    },
  },
  {
    name: "what waits for our worker was lost",
    edits: [
      {
        file: "poll/lostEvents.sql.ts",
        find: "coalesce(i.received_at, h.seen_at)",
        replace: "h.seen_at",
      },
    ],
    caughtBy: {
      file: "test/integration/apply/lostEvents.test.ts",
      test: "names the waiting of applied events as ours",
    },
  },
  {
    name: "concurrent planners of outgoing webhooks",
    edits: [
      {
        file: "outgoing/outgoingPlan.sql.ts",
        find: "where endpoint_id = $1 for update skip locked",
        replace: "where endpoint_id = $1",
      },
    ],
    caughtBy: {
      file: "test/integration/changes/outgoing.test.ts",
      test: "are not planned by a second process before the first has committed its plan",
    },
  },
  {
    name: "the late end of a message that was sent again",
    edits: [
      {
        file: "outgoing/outgoingPlan.sql.ts",
        find: "delivery_id = default, state",
        replace: "state",
      },
    ],
    caughtBy: {
      file: "test/integration/changes/outgoing.test.ts",
      test: "a late answer to the former sending changes nothing",
    },
  },
  {
    name: "a queue of outgoing webhooks that was emptied",
    edits: [
      {
        file: "outgoing/outgoingQueue.ts",
        find: "if (held < standing.enqueued)",
        replace: "if (held < 0 * standing.enqueued)",
      },
    ],
    caughtBy: {
      file: "test/integration/changes/outgoing.test.ts",
      test: "loses nothing when its jobs are lost",
    },
  },
  {
    name: "ordered endpoints get changes before earlier ones of the same order",
    edits: [
      {
        file: "outgoing/outgoingDelivery.sql.ts",
        find: "where $2 and o.endpoint_id = d.endpoint_id",
        replace: "where false and $2 and o.endpoint_id = d.endpoint_id",
      },
    ],
    caughtBy: {
      file: "test/integration/changes/outgoing.test.ts",
      test: "gets the changes of each order one after the other, with failures and two processes",
    },
  },
  {
    name: "the stream says complete while changes are unsent",
    edits: [
      {
        file: "changes/changeHub.ts",
        find: "complete: isEnd ? kept.complete : null",
        replace: "complete: isEnd || first >= 0 ? kept.complete : null",
      },
    ],
    caughtBy: {
      file: "test/integration/changes/changeStream.test.ts",
      test: "says that every change was sent only behind the last of those that are kept",
    },
  },
  {
    name: "retention never checks replaced rows again",
    edits: [
      {
        file: "retention/retention.sql.ts",
        find: "where source_id = concerned.source_id and reference = concerned.reference offset 0",
        replace:
          "where history_id = any (array(select id from old)) and reference = concerned.reference offset 0",
      },
    ],
    caughtBy: {
      file: "test/integration/retention/retention.test.ts",
      test: "of the history, except the observation that each order shows",
    },
  },
  {
    name: "an erasure that forgets events whose decisions retention removed",
    edits: [
      {
        file: "retention/erasure.sql.ts",
        find: "    union select unnest($3::bigint[])\n",
        replace: "    union select unnest($3::bigint[]) where false\n",
      },
    ],
    caughtBy: {
      file: "test/integration/retention/erasure.test.ts",
      test: "is erased from an event whose decision is no longer in the history",
    },
  },
  {
    name: "an abandoned statement keeps waiting on the server",
    edits: [
      {
        file: "database/database.ts",
        find: "  cancelAbandoned(pool);\n",
        replace: "  void cancelAbandoned;\n",
      },
    ],
    caughtBy: {
      file: "test/integration/receive/synchronousStandby.test.ts",
      test: "a stalled standby uses no more connections than a pool has",
    },
  },
  {
    name: "a duplicate that no standby has is acknowledged",
    edits: [
      {
        file: "receive/inbox.sql.ts",
        find: "where (select count(*) from stored) < cardinality",
        replace: "where false and (select count(*) from stored) < cardinality",
      },
    ],
    caughtBy: {
      file: "test/integration/receive/synchronousStandby.test.ts",
      test: "a stalled standby uses no more connections than a pool has",
    },
  },
];
