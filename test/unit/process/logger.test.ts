import { describe, expect, it } from "vitest";
import { ConfigurationError, UnavailableError } from "../../../src/domain/errors.ts";
import { makeLogger, type LogFormat } from "../../../src/process/telemetry/logger.ts";

const CANARIES = ["+31612345678", "Jane-Canary", "whsec_canary", "Canary Street 1"];

function capture(format: LogFormat = "json") {
  const lines: string[] = [];
  const logger = makeLogger({
    level: "trace",
    format,
    service: "test",
    destination: { write: (line) => lines.push(line) },
  });
  const last = () => JSON.parse(lines.at(-1)!) as Record<string, unknown> & { err: Record<string, unknown> };
  return { logger, lines, last };
}

const poisoned = () => {
  const cause = Object.assign(new TypeError(`no phone like "${CANARIES[0]}"`), {
    body: { customer: { firstName: CANARIES[1], phone: CANARIES[0] } },
    headers: { authorization: CANARIES[2] },
    code: "ERR_BAD_PHONE",
  });
  const middle = Object.assign(new Error(`said '${CANARIES[3]}'`, { cause }), { detail: CANARIES[3] });
  return Object.assign(new UnavailableError("the provider is away", { cause: middle, fix: "wait" }), {
    body: CANARIES.join(),
    response: { data: CANARIES },
  });
};

/** The secrets found in the log; "nothing was logged" when there are no lines. */
function listCanaries(lines: readonly string[]): string[] {
  if (lines.length === 0) return ["nothing was logged"];
  return CANARIES.filter((canary) => lines.join("").includes(canary));
}

it("writes the level as a word, the service, the version, and nothing about the machine", () => {
  const { logger, last } = capture();
  logger.info({ event_id: "evt_1" }, "event stored");
  expect(last()).toEqual({
    level: "info",
    time: expect.any(Number),
    service: "test",
    version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    event_id: "evt_1",
    msg: "event stored",
  });
});

it("logs type, message, retry, stack frames and the kinds of the causes of our own errors, and the code of a system's", () => {
  const { logger, last } = capture();
  logger.error({ err: poisoned() }, "failed");
  const { err } = last();
  expect(Object.keys(err).toSorted()).toEqual(["causes", "message", "retry", "stack", "type"]);
  expect(err).toMatchObject({
    type: "UnavailableError",
    message: "the provider is away",
    retry: "later",
    causes: ["Error", "TypeError ERR_BAD_PHONE"],
  });
  expect(err["stack"]).toMatch(/^ {4}at /);
  const refused = Object.assign(new Error("connect ECONNREFUSED 127.0.0.1:1"), { code: "ECONNREFUSED" });
  logger.error({ err: refused });
  expect(last().err).toMatchObject({ code: "ECONNREFUSED", message: refused.message });
});

describe("personal data and secrets stay out of the log", () => {
  const ways: Record<string, (logger: ReturnType<typeof capture>["logger"]) => void> = {
    "in an error under err": (logger) => logger.error({ err: poisoned() }, "failed"),
    "in an error under another name": (logger) => logger.error({ reason: poisoned() }, "failed"),
    "in an error alone": (logger) => logger.error(poisoned()),
    "in a foreign error alone": (logger) => logger.error(poisoned().cause),
    "in a foreign error under err without a sentence": (logger) => logger.error({ err: poisoned().cause }),
    "in an error of a child logger": (logger) => logger.child({ err: poisoned() }).info("child"),
    "in an object of a child logger": (logger) =>
      logger.child({ order: { phone: CANARIES[0] } }).info("child"),
    "in an object of a grandchild": (logger) =>
      logger
        .child({ a: 1 })
        .child({ order: { phone: CANARIES[0] } })
        .info("child"),
    "in a nested object": (logger) => logger.info({ order: { customer: { phone: CANARIES[0] } } }, "order"),
    "in a list of objects": (logger) => logger.info({ orders: [{ phone: CANARIES[0] }] }, "orders"),
    "in a field that is named like a secret": (logger) =>
      logger.info({ webhookSecret: CANARIES[2], first_name: CANARIES[1], phone: CANARIES[0] }, "fields"),
    "in arguments of a format": (logger) =>
      (logger.info as (...args: unknown[]) => void)("to %s", CANARIES[0]),
    "in arguments of a format after fields": (logger) =>
      (logger.info as (...args: unknown[]) => void)({ a: 1 }, "to %o", { phone: CANARIES[0] }),
    "in what JSON.parse says about its input": (logger) => {
      try {
        JSON.parse(`{"phone":"${CANARIES[0]}", "name": "${CANARIES[1]}", x}`);
      } catch (error) {
        logger.error({ err: error }, "unreadable");
        logger.error(error);
      }
    },
    "in a request": (logger) =>
      logger.info(
        Object.assign({ method: "POST", socket: {}, url: "/" }, { headers: { authorization: CANARIES[2] } }),
        "request",
      ),
  };
  it.each(Object.entries(ways))("%s", (_way, log) => {
    for (const format of ["json", "pretty"] as const) {
      const { logger, lines } = capture(format);
      log(logger);
      expect(listCanaries(lines)).toEqual([]);
    }
  });
});

it("logs numbers under any name, lists of scalars, and the beginning of a text that is far too long", () => {
  const { logger, last } = capture();
  logger.info({ event_type: "x".repeat(5_000) }, "long");
  expect(last()["event_type"]).toHaveLength(1_001);
  logger.info({ secret_index: 1, body_bytes: 20, seqs: [1n, 2n], capacity: "x", at: 5n }, "stored");
  expect(last()).toMatchObject({ secret_index: 1, body_bytes: 20, seqs: ["1", "2"], capacity: "x", at: "5" });
});

it("logs a thrown value that is not an error, without its content", () => {
  const { logger, lines } = capture();
  logger.error({ err: { phone: CANARIES[0] } }, "odd");
  logger.error({ err: new ConfigurationError("PORT is not a number.") }, "bad");
  expect(listCanaries(lines)).toEqual([]);
  expect(lines.at(-1)).toContain("PORT is not a number.");
});

it("writes readable lines at once in the pretty format, and shows control characters and directions of text", () => {
  const { logger, lines } = capture("pretty");
  logger.warn({ event_id: "evt_1" }, "event stored");
  expect(lines).toEqual([expect.stringMatching(/WARN.*event stored.*evt_1/)]);
  const hostile = "R1\u001b]0;x\u0007\u009b2J\u202e\u2028\n12:00 INFO all is well";
  logger.info({ reference: hostile, list: [hostile] }, "read");
  logger.warn({ err: new Error(hostile) }, "failed");
  logger.error(new Error(hostile));
  const text = lines.join("");
  expect(text.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\p{Zl}\u202e]/u);
  expect(text).not.toMatch(/^12:00/m);
  expect(text).toContain(String.raw`R1\u001b]0;x`);
});
