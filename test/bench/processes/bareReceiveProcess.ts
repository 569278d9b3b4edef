import { createServer } from "node:http";
import { listenOn, localUrl } from "../../../src/runtime/http/listenOn.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import { WEBHOOK_SECRET } from "../../support/signing/webhooks.ts";
import { makeBareReceiver } from "../bareReceiver.ts";

/** A handler that verifies and parses events, as a separate process. Sends its address first. */
const verifier = loadVerifier({ scheme: loadScheme("standard-webhooks"), secrets: [WEBHOOK_SECRET] });
const server = createServer(makeBareReceiver(verifier));
const port = await listenOn(server, { host: "127.0.0.1", port: 0, portVariable: "PORT" });
process.send?.(localUrl("127.0.0.1", port));
