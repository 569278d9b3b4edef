// A daily report for cron: the orders of one day (UTC) that were delivered late, as CSV. The mirror says up to when it has
// everything; before it has the whole day, the job ends with the exit code 75, and cron tries again later.
import { compareTimes, createMirrorClient, toDate } from "order-mirror/mirror";

const { MIRROR_URL = "http://127.0.0.1:3000", MIRROR_TOKEN } = process.env;
const [day = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10)] = process.argv.slice(2);
const TRY_AGAIN = 75;

const mirror = createMirrorClient({ baseUrl: MIRROR_URL, token: MIRROR_TOKEN });
const from = new Date(`${day}T00:00:00Z`);
const until = new Date(from.getTime() + 86_400_000);

const lines = [];
for await (const { orders, safeThrough, exceptions } of mirror
  .orders({ deliveryFrom: from, deliveryUntil: until })
  .pages()) {
  if (safeThrough === null || compareTimes(safeThrough, until.toISOString()) < 0) {
    process.stderr.write(`The mirror has everything up to ${safeThrough ?? "an unknown time"} only.\n`);
    process.exit(TRY_AGAIN);
  }
  if (exceptions > 0) process.stderr.write(`${exceptions} orders could not be read and may be missing.\n`);
  for (const { reference, fleet, deliveryTime, realDeliveryTime } of orders) {
    if (!realDeliveryTime || compareTimes(realDeliveryTime, deliveryTime) <= 0) continue;
    const minutes = Math.round((toDate(realDeliveryTime) - toDate(deliveryTime)) / 60_000);
    lines.push([reference, fleet.name, deliveryTime, realDeliveryTime, minutes].map(quote).join(","));
  }
}
process.stdout.write(`${["order,fleet,planned,delivered,minutes_late", ...lines].join("\n")}\n`);

function quote(value) {
  return /[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value;
}
