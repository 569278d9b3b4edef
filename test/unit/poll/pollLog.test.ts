import { describe, expect, it } from "vitest";
import type { CycleCounts } from "../../../src/poll/cycle/runSweeps.ts";
import { makePollLog } from "../../../src/poll/leader/pollLog.ts";
import { ProviderError } from "../../../src/provider/errors.ts";
import { makeLogger } from "../../../src/runtime/telemetry/logger.ts";

describe("the log of polling", () => {
  const makeSut = () => {
    const lines: { level: string; msg: string }[] = [];
    const destination = { write: (line: string) => void lines.push(JSON.parse(line) as (typeof lines)[0]) };
    const log = makePollLog(makeLogger({ level: "info", format: "json", service: "test", destination }));
    return { log, said: () => lines.splice(0).map(({ level, msg }) => `${level}: ${msg}`) };
  };
  const counts = { spareError: undefined } as CycleCounts;
  const limited = new ProviderError("429", { failure: "rate_limited", retry: { afterMs: 1 } });

  it("reports a problem once, again when it changes, and once when it is over", () => {
    const { log, said } = makeSut();
    log.succeeded(counts, null);
    expect(said()).toEqual([]);
    log.failed(limited, 1);
    log.failed(limited, 2);
    expect(said()).toEqual(["warn: polling failed; it resumes from the same place"]);
    log.failed(new ProviderError("401", { failure: "key_refused" }), 3);
    log.failed(new ProviderError("401", { failure: "key_refused" }), 3);
    expect(said()).toEqual([
      "error: the provider refuses the API key; nothing is polled until it is replaced",
    ]);
    log.failed(new TypeError("a bug"), 3);
    expect(said()).toEqual(["error: polling failed unexpectedly"]);
    log.succeeded(counts, null);
    log.succeeded(counts, null);
    expect(said()).toEqual(["info: polling works again"]);
  });
  it("reports a failing sweep while the fast sweep works, and a wrong clock", () => {
    const { log, said } = makeSut();
    log.succeeded({ ...counts, spareError: limited }, null);
    log.succeeded({ ...counts, spareError: limited }, -61);
    log.succeeded({ ...counts, spareError: limited }, -62);
    expect(said()).toEqual([
      "warn: reading outside the fast sweep failed; it will be retried later",
      "warn: the provider's clock differs from the database's; nothing is proved until they agree",
    ]);
    log.succeeded(counts, null);
    log.succeeded(counts, null);
    expect(said()).toEqual(["info: the provider's clock is right again"]);
  });
});
