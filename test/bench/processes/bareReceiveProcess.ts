import { createServer } from "node:http";
import { listenOn, localUrl } from "../../../src/runtime/http/httpServer.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import { WEBHOOK_SECRET } from "../../support/signing/webhooks.ts";
import { makeBareReceiver } from "../bareReceiver.ts";

/**
 * A handler that verifies and parses events, as a separate process. With an argument, it answers all waiting events
 * together after so many milliseconds, as a commit does. Sends its address first.
 */
const [pauseMs] = process.argv.slice(2).map(Number);
const waiting: (() => void)[] = [];

function answerTogether(answer: () => void): void {
  if (waiting.push(answer) > 1) return;
  setTimeout(() => {
    for (const next of waiting.splice(0)) next();
  }, pauseMs);
}

const verifier = loadVerifier({ scheme: loadScheme("standard-webhooks"), secrets: [WEBHOOK_SECRET] });
const server = createServer(makeBareReceiver(verifier, pauseMs === undefined ? undefined : answerTogether));
const port = await listenOn(server, { host: "127.0.0.1", port: 0, portVariable: "PORT" });
process.send?.(localUrl("127.0.0.1", port));
