import { describe, expect, it } from "vitest";
import { addSeconds } from "../../../src/domain/order/instant.ts";
import { makeReadPage, startReading } from "../../../src/poll/cycle/readWindow.ts";
import type { Reading } from "../../../src/poll/cycle/readWindow.ts";
import type { Reads } from "../../../src/apply/apply.ts";
import { makeMemoryProvider, secondsAgo } from "../../support/providers/memoryProvider.ts";

const { signal } = new AbortController();
const options = { via: "poll", priority: "poll", signal } as const;

function makeSut() {
  const client = makeMemoryProvider();
  const applied: Reads[] = [];
  let turns = 0;
  const apply = {
    applyReads: async (reads: Reads) => {
      applied.push(reads);
      return [];
    },
  };
  const readPage = makeReadPage(
    { source: { sourceId: "live" }, client, apply, settleSeconds: 5 },
    async () => void (turns += 1),
  );
  const readAll = async (reading: Reading) => {
    let current = reading;
    while (current.walk.outcome === undefined) current = await readPage(current, options);
    return current;
  };
  const start = () =>
    startReading({ since: secondsAgo(100), until: secondsAgo(10) }, { limit: 200, nowMs: 0 });
  return { client, apply, applied, readPage, readAll, start, turns: () => turns };
}

describe("reading a window", () => {
  it("applies every order once, with the instant of its request, and waits for its turn each time", async () => {
    const sut = makeSut();
    sut.client.limitMax = 5;
    for (let order = 0; order < 12; order += 1) sut.client.put(`R${order}`, secondsAgo(20 + order));
    const { counts, walk, begunAt } = await sut.readAll(sut.start());
    expect(walk.outcome).toEqual({ kind: "read", proved: true });
    expect(counts).toMatchObject({ requests: sut.client.reads.length, orders: 12, unreadable: 0 });
    const references = sut.applied.flatMap(({ snapshots }) =>
      snapshots.map(({ fields }) => fields.reference),
    );
    expect(references.toSorted()).toEqual(Array.from({ length: 12 }, (_, order) => `R${order}`).toSorted());
    expect(sut.turns()).toBe(counts.requests);
    expect(sut.applied[0]).toMatchObject({
      sourceId: "live",
      via: "poll",
      time: { settleSeconds: 5, horizonSeconds: 900 },
    });
    expect(begunAt).toBe(sut.applied[0]?.time.requestedAt);
    expect(sut.applied.at(-1)!.time.requestedAt).toBeGreaterThan(begunAt!);
  });

  it("requests full pages", async () => {
    const sut = makeSut();
    await sut.readAll(sut.start());
    expect(sut.client.reads[0]?.query).toMatchObject({ limit: 200, offset: 0 });
  });

  it("passes unreadable rows to apply once, with the cause but without personal data", async () => {
    const sut = makeSut();
    sut.client.limitMax = 3;
    sut.client.serveToo(JSON.stringify({ reference: "R1", customer: { phone: "+31" } }));
    for (let order = 0; order < 5; order += 1) sut.client.put(`R${order}`, secondsAgo(20 + order));
    const { counts } = await sut.readAll(sut.start());
    expect(counts).toMatchObject({ orders: 5, unreadable: 1 });
    const unreadable = sut.applied.flatMap((reads) => reads.unreadable ?? []);
    expect(unreadable).toMatchObject([
      { raw: expect.stringContaining("R1"), detail: expect.stringContaining("updatedAt"), reference: "R1" },
    ]);
    expect(unreadable[0]?.detail).not.toContain("+31");
  });

  it("keeps its position when applying fails", async () => {
    const sut = makeSut();
    sut.client.put("R1", secondsAgo(20));
    const reading = sut.start();
    const failing = makeReadPage(
      {
        source: { sourceId: "live" },
        client: sut.client,
        apply: { applyReads: () => Promise.reject(new Error("the database is away")) },
        settleSeconds: 5,
      },
      async () => undefined,
    );
    await expect(failing(reading, options)).rejects.toThrow("away");
    expect(reading.walk.pages).toBe(0);
    expect((await sut.readAll(reading)).counts.orders).toBe(1);
  });

  it("bounds the pages of a window that can be shortened, and far less those of one that cannot", () => {
    const now = secondsAgo(10);
    expect(
      startReading({ since: now, until: addSeconds(now, 2.1) }, { limit: 200, nowMs: 0 }).walk.pagesMax,
    ).toBe(500);
    expect(
      startReading({ since: now, until: addSeconds(now, 2) }, { limit: 200, nowMs: 0 }).walk.pagesMax,
    ).toBe(5_000);
  });
});
