/**
 * Takes the pictures of docs/images from a demo with a fixed seed: `npm run screenshots` after `npm run build`.
 *
 * The demo runs for nine minutes first, so that there is something to see; Chromium must be on the PATH.
 */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { findFreePort } from "../src/runtime/postgres/freePort.ts";
import { NO_BROWSER, openBrowser, openTab } from "./support/pages/browser.ts";
import { runProgram, startProgram, stopPrograms } from "./support/programs/program.ts";

const IMAGES = path.resolve(import.meta.dirname, "../docs/images");
const WARM_UP_MS = Number(process.argv[2] ?? 540) * 1_000;
/** Until the first events have come; an event is called lost five minutes after it should have come. */
const SETTLE_MS = 40_000;
const DESK = { viewport: { width: 1280, height: 860 }, colorScheme: "light" } as const;
const PHONE = { viewport: { width: 360, height: 780 }, colorScheme: "dark", deviceScaleFactor: 2 } as const;

interface Picture {
  readonly file: string;
  readonly url: string;
  readonly screen: typeof DESK | typeof PHONE;
}

const dataDir = await mkdtemp(path.join(tmpdir(), "order-mirror-pictures-"));
const [port, sandboxPort] = [await findFreePort(), await findFreePort()];
const env = { DATA_DIR: dataDir, PORT: String(port), SANDBOX_PORT: String(sandboxPort), SANDBOX_SEED: "1" };
const ops = `http://127.0.0.1:${port}/ops`;

/** An order whose event was lost on purpose, and which a poll has repaired. */
async function loseAnEvent(): Promise<string> {
  const triggered = await runProgram(["trigger", "lost-webhook", "--json"], env);
  const reference = /"reference": "([^"]+)"/.exec(triggered.stdout)?.[1];
  if (reference === undefined) throw new Error(`trigger said: ${triggered.stdout}${triggered.stderr}`);
  return reference;
}

async function take(pictures: readonly Picture[]): Promise<void> {
  const browser = await openBrowser();
  if (browser === undefined) throw new Error(NO_BROWSER);
  for (const { file, url, screen } of pictures) {
    const { page, close } = await openTab(browser, url, screen);
    await page.goto(url);
    // The charts are drawn by then, and the live feed has sent its first message.
    await sleep(2_500);
    await page.screenshot({ path: path.join(IMAGES, file) });
    process.stdout.write(`${file}\n`);
    await close();
  }
  await browser.close();
}

try {
  await mkdir(IMAGES, { recursive: true });
  const demo = startProgram(["demo"], env);
  await demo.waitFor(/Read API\s+(http:\S+)\/v1\/orders/, 60_000);
  await sleep(SETTLE_MS);
  const reference = await loseAnEvent();
  await sleep(WARM_UP_MS - SETTLE_MS);
  process.stdout.write(`${(await runProgram(["order", reference], env)).stdout}\n`);
  process.stdout.write(`${(await runProgram(["status"], env)).stdout}\n`);
  await take([
    { file: "overview.png", url: ops, screen: DESK },
    { file: "overview-phone-dark.png", url: ops, screen: PHONE },
    { file: "orders.png", url: `${ops}/orders`, screen: DESK },
    { file: "orders-phone.png", url: `${ops}/orders?is=open`, screen: PHONE },
    { file: "order.png", url: `${ops}/orders/live/${reference}`, screen: DESK },
    { file: "sandbox.png", url: `http://127.0.0.1:${sandboxPort}/_sandbox`, screen: DESK },
  ]);
} finally {
  await stopPrograms();
  await rm(dataDir, { recursive: true, force: true });
}
