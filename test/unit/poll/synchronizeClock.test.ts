import { describe, expect, it } from "vitest";
import { synchronizeClock } from "../../../src/poll/cycle/synchronizeClock.ts";
import { ProviderError } from "../../../src/provider/errors.ts";
import { makeMemoryProvider } from "../../support/providers/memoryProvider.ts";

describe("the provider's clock", () => {
  const { signal } = new AbortController();
  const makeClient = (answer: () => Promise<never>, teaches: boolean) => {
    const { providerClock } = makeMemoryProvider();
    let asked = 0;
    return {
      asked: () => asked,
      providerClock: { ...providerClock, isSynchronized: () => teaches && asked > 0 },
      listBranches: () => {
        asked += 1;
        return answer();
      },
    };
  };
  const refused = () => Promise.reject(new ProviderError("refused", { failure: "refused" }));
  it("is requested once, and also learned from a refusal", async () => {
    const client = makeClient(refused, true);
    await synchronizeClock(client, signal);
    await synchronizeClock(client, signal);
    expect(client.asked()).toBe(1);
  });
  it("prevents polling while it is unknown, as does a refused key", async () => {
    await expect(synchronizeClock(makeClient(refused, false), signal)).rejects.toThrow(ProviderError);
    const unauthorized = () =>
      Promise.reject(new ProviderError("the key is refused", { failure: "key_refused" }));
    await expect(synchronizeClock(makeClient(unauthorized, true), signal)).rejects.toThrow(
      "the key is refused",
    );
  });
});
