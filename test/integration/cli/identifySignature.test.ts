import { createHmac } from "node:crypto";
import { appendFile, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { runCommand } from "../../support/programs/command.ts";

const SECRET = "a secret of this endpoint";

/** A body from a number on. The signature has a character that distinguishes base64url from base64 exactly if `tells` is true. */
function sign(from: number, tells: boolean) {
  for (let number = from; ; number += 1) {
    const body = JSON.stringify({ number });
    const signature = createHmac("sha256", SECRET).update(body).digest("base64url");
    if (/[-_]/.test(signature) === tells) return { body, signature };
  }
}

it("identify-signature prefers the scheme that verifies the most refused requests to the first that verifies one", async () => {
  const dataDir = await mkdtemp(path.join(tmpdir(), "order-mirror-identify-"));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  const folder = path.join(dataDir, "refused-requests");
  await mkdir(folder, { mode: 0o700 });
  // The newest request, which is examined first, cannot tell.
  for (const [place, tells] of [true, true, false].entries()) {
    const { body, signature } = sign(place * 1_000, tells);
    const kept = {
      refusedAtMs: 1_795_400_000_000 + place,
      target: "/webhooks/live",
      headers: { "x-proof": [signature] },
      bodyBase64: Buffer.from(body).toString("base64"),
    };
    await appendFile(path.join(folder, "live.ndjson"), `${JSON.stringify(kept)}\n`);
  }
  const { stdout, stderr } = await runCommand(["identify-signature"], {
    env: { DATA_DIR: dataDir, IDENTIFY_SECRET: SECRET },
  });
  expect(stderr).toContain("A scheme verifies 3 of 3 refused requests of live.");
  expect(stdout).toContain('"encoding":"base64url"');
});
