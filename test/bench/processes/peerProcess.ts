import { createServer } from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import { buffer } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { listenOn, localUrl } from "../../../src/runtime/http/httpServer.ts";
import { WEBHOOK_SECRET } from "../../support/signing/webhooks.ts";

/**
 * The peer's own way to store an event, behind a bare server: one upsert, without an inbox, a history, or a feed. Argument:
 * the folder where it is installed. Sends its address first.
 */
interface PeerPackage {
  readonly runMigrations: (options: { databaseUrl: string; schema: string }) => Promise<void>;
  readonly StripeSync: new (options: object) => {
    processWebhook: (body: Buffer, signature: string) => Promise<void>;
  };
}

const CONNECTIONS = 20;
const [folder = ""] = process.argv.slice(2);
const databaseUrl = String(process.env["DATABASE_URL"]);
const entry = createRequire(path.join(folder, "package.json")).resolve("@supabase/stripe-sync-engine");
const { runMigrations, StripeSync } = (await import(pathToFileURL(entry).href)) as PeerPackage;
await runMigrations({ databaseUrl, schema: "stripe" });
const sync = new StripeSync({
  poolConfig: { connectionString: databaseUrl, max: CONNECTIONS },
  schema: "stripe",
  stripeSecretKey: "sk_test_nothing_is_requested",
  stripeWebhookSecret: WEBHOOK_SECRET,
  backfillRelatedEntities: false,
});

const server = createServer((request, response) => {
  buffer(request)
    .then((body) => sync.processWebhook(body, String(request.headers["stripe-signature"])))
    .then(
      () => response.writeHead(200).end("{}"),
      (error: unknown) => {
        process.stderr.write(`${String(error)}\n`);
        response.writeHead(500).end();
      },
    );
});
const port = await listenOn(server, { host: "127.0.0.1", port: 0, portVariable: "PORT" });
process.send?.(localUrl("127.0.0.1", port));
