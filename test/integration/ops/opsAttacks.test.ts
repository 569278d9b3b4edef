import { expect, it } from "vitest";
import { OPEN, openOpsPages } from "../../support/pages/opsServer.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { fillOutgoing, secondsAgo } from "../../support/pages/opsMirror.ts";
import { addSource, makeEventBody, putIntoInbox } from "../../support/mirror/orders.ts";

// opsLogin.test.ts tests attacks on the login itself (fixation, guessing, other sites), and opsStates.test.ts looks at such
// text in a browser.

/** Breaks out of content, attributes in either kind of quotes, scripts and comments. */
const EVIL = `"'></a></td><img src=x onerror="globalThis.owned=1"><script>globalThis.owned=1</script><!--\${1}`;
const SNEAKY = "javascript:globalThis.owned=1//";
const REFERENCE = `X${EVIL}`;

const { pool, queue, url } = await openOpsPages({ max: 3, config: OPEN });

await queue.bull.add(EVIL, { seqs: [1] });
const pages = await fillWithEvil();

/** Puts hostile text wherever a provider or a person can, and returns the addresses of all pages that show it. */
async function fillWithEvil(): Promise<string[]> {
  await addSource(pool, "live");
  await pool.query("update mirror.sources set base_url = $1", [SNEAKY]);
  await pool.query(
    "insert into mirror.poll_state (source_id, trouble, failing_since, last_error) values ('live', 'other', now(), $1)",
    [EVIL],
  );
  const { applyEvents } = makeLiveApply(pool);
  const more = {
    externalOrderId: EVIL,
    fleet: { name: EVIL },
    branch: { id: EVIL, reference: SNEAKY },
    customer: { firstName: EVIL },
    trackingUrl: SNEAKY,
    [EVIL]: EVIL,
  };
  const tell = (id: string, status: string, ago: number) =>
    makeEventBody({
      id,
      type: EVIL,
      order: { reference: REFERENCE, status, updatedAt: secondsAgo(ago), more },
    });
  const events = [
    { eventId: EVIL, body: tell(EVIL, "created", 30) },
    { eventId: `${EVIL}2`, body: tell(`${EVIL}2`, EVIL.slice(0, 200), 20) },
    {
      eventId: "bad",
      body: Buffer.from(`{"id":"bad","type":${JSON.stringify(EVIL)},"data":{"reference":7}}`),
    },
    { eventId: "html", body: Buffer.from(EVIL) },
  ];
  await applyEvents(await putIntoInbox(pool, events));
  await pool.query(
    `insert into mirror.quarantine (source_id, via, reason, detail, reference, raw) values ('live', 'poll', 'unreadable_order', $1, $2, $3)`,
    [EVIL, REFERENCE, Buffer.from(JSON.stringify({ [EVIL]: EVIL }))],
  );
  await pool.query(
    `insert into mirror.ops_actions (role, action, source_id, target, note) values ('operator', 'dismiss', 'live', $1, $1)`,
    [EVIL],
  );
  await fillOutgoing(pool, EVIL);
  await pool.query("update mirror.outgoing_deliveries set reference = $1, last_outcome = $1", [EVIL]);
  const { rows } = await pool.query<{ quarantine_id: string }>("select quarantine_id from mirror.quarantine");
  const typed = encodeURIComponent(EVIL);
  return [
    "/ops",
    "/ops/sources/live",
    `/ops/orders/live/${encodeURIComponent(REFERENCE)}`,
    `/ops/orders/live/${typed}`,
    `/ops/orders/${typed}/${typed}`,
    `/ops/search?q=${encodeURIComponent(REFERENCE)}`,
    `/ops/search?q=${typed}`,
    "/ops/quarantine",
    `/ops/quarantine?source=${typed}&reason=${typed}`,
    ...rows.map((row) => `/ops/quarantine/${row.quarantine_id}`),
    "/ops/actions",
    "/ops/outgoing",
    `/ops/outgoing/messages?endpoint=${typed}`,
    `/ops/actions?person=${typed}`,
    `/ops/lost?source=${typed}&after=${typed}`,
    `/ops/sources/${typed}`,
    `/ops/queue-health/${encodeURIComponent(typed)}/1`,
    `/ops/${typed}`,
  ];
}

it("text from a recipient, a provider or a visitor is shown as text on every page, never as markup", async () => {
  let shown = 0;
  for (const page of pages) {
    const text = await (await fetch(url + page)).text();
    expect([page, text.match(/<img[^>]*onerror|<script>globalThis/gi)]).toEqual([page, null]);
    expect([page, text.match(/(?:href|src|action)="\s*javascript:/gi)]).toEqual([page, null]);
    if (text.includes("&lt;script&gt;globalThis")) shown += 1;
  }
  // Otherwise the pages might simply show nothing.
  expect(shown).toBeGreaterThan(5);
});
