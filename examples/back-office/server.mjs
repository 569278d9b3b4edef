// A web page with all late orders. It keeps the open orders in memory: at its start it reads all orders, and from then on
// every change as it is made.
import { createServer } from "node:http";
import { createMirrorClient, toDate } from "order-mirror/mirror";

const { MIRROR_URL = "http://127.0.0.1:3000", MIRROR_TOKEN, PORT = "8080", LATE_MINUTES = "0" } = process.env;
const lateMs = Number(LATE_MINUTES) * 60_000;
const mirror = createMirrorClient({ baseUrl: MIRROR_URL, token: MIRROR_TOKEN });

/** @type {Map<string, import("order-mirror/mirror").Order>} */
const open = new Map();
let state = "starting";

function onState(next) {
  // Orders that a new snapshot does not contain no longer exist.
  if (next.state === "snapshot") open.clear();
  state = next.state === "waiting" ? next.error.message : next.state;
}

async function follow() {
  for await (const { reference, verdict, after } of mirror.changes({ onState })) {
    if (verdict === "gone" || after?.realDeliveryTime || after?.status === "cancelled")
      open.delete(reference);
    else if (after !== null) open.set(reference, after);
  }
}

function listLate() {
  const now = Date.now();
  return [...open.values()]
    .filter(({ deliveryTime }) => deliveryTime && now - toDate(deliveryTime).getTime() > lateMs)
    .sort((a, b) => toDate(a.deliveryTime) - toDate(b.deliveryTime));
}

const escape = (text) => String(text).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

function renderRow({ reference, status, fleet, deliveryTime }) {
  const minutes = Math.round((Date.now() - toDate(deliveryTime).getTime()) / 60_000);
  const cells = [reference, fleet.name, status, deliveryTime, `${minutes} min`];
  return `<tr>${cells.map((cell) => `<td>${escape(cell)}</td>`).join("")}</tr>`;
}

const server = createServer((_request, response) => {
  const rows = listLate().map(renderRow).join("\n");
  response.setHeader("content-type", "text/html; charset=utf-8").end(`<!doctype html>
<title>Late orders</title>
<meta http-equiv="refresh" content="5">
<h1>Late orders</h1>
<p>${open.size} open orders; ${escape(state)}</p>
<table>
<tr><th>Order</th><th>Fleet</th><th>Status</th><th>Planned delivery</th><th>Late</th></tr>
${rows}
</table>`);
});

server.listen(Number(PORT), "127.0.0.1", () => process.stdout.write(`http://127.0.0.1:${PORT}\n`));
await follow();
