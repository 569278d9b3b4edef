// A shop's own Express program with the mirror inside it: one process, its own routes, its own pool of connections.
//
//   npm install ../order-mirror/order-mirror-0.1.0.tgz express pg   # from `npm pack`, until a release is on npm
//   DATABASE_URL=postgres://… DELIVERY_BASE_URL=https://… DELIVERY_LIVE_API_KEY=… DELIVERY_LIVE_WEBHOOK_SECRET=whsec_… \
//   API_TOKEN=… OPS_PASSWORD=… node server.mjs
import express from "express";
import { createMirror } from "order-mirror";
import pg from "pg";

const { env } = process;
const mirror = await createMirror({
  databaseUrl: env.DATABASE_URL,
  sources: [
    {
      sourceId: "live",
      mode: "live",
      baseUrl: env.DELIVERY_BASE_URL,
      apiKey: env.DELIVERY_LIVE_API_KEY,
      webhookSecrets: [env.DELIVERY_LIVE_WEBHOOK_SECRET],
    },
  ],
  apiTokens: [env.API_TOKEN],
  opsPassword: env.OPS_PASSWORD,
});
await mirror.migrate();

const app = express();
// Before body parsers, as signatures cover the bytes. The shop's own routes below come after it and live: the mirror answers
// only its own addresses.
app.use(mirror.webhooks, mirror.api, mirror.ops, mirror.probes);
app.use(express.json());

app.get("/v1/products", (_request, response) => response.json([{ name: "a cake" }]));
app.post("/webhooks/payments", (request, response) => response.json({ paid: request.body.paid }));
app.get("/metrics", (_request, response) => response.type("text").send("shop_open 1\n"));

const pool = new pg.Pool({ connectionString: env.DATABASE_URL });
app.get("/shop/statuses", async (_request, response) => {
  const { rows } = await pool.query("select status, count(*)::int from reporting.orders group by status");
  response.json(rows);
});

const server = app.listen(Number(env.PORT ?? 3000), "127.0.0.1");
await mirror.start({ worker: true, poller: true });
process.stdout.write("the shop is open\n");

async function close() {
  await Promise.all([mirror.close(), new Promise((resolve) => server.close(resolve))]);
  await pool.end();
}
process.once("SIGINT", () => void close());
process.once("SIGTERM", () => void close());
