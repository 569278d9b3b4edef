import { describe, expect, it } from "vitest";
import { readMoment, renderDelivery } from "../../../src/ops/orders/delivery.ts";
import type { Delivery, TimelineEntry } from "../../../src/orders/orderStory.sql.ts";
import { ago, CANCELLED_DELIVERY, makeFacts } from "../../support/pages/facts.ts";

const entry = (status: string, seconds: number, change: Partial<TimelineEntry> = {}): TimelineEntry => ({
  sourceId: "live",
  reference: "R1",
  historyId: 1n,
  via: "webhook",
  verdict: "applied",
  conflict: false,
  reason: null,
  eventId: "evt",
  eventType: null,
  status,
  previousStatus: null,
  version: ago(seconds),
  seenAt: ago(seconds),
  settled: null,
  refuted: false,
  observedAt: ago(seconds),
  receivedAt: ago(seconds - 2),
  raw: "{}",
  ...change,
});

const render = (change: Partial<Delivery>, timeline: readonly TimelineEntry[] = []) =>
  renderDelivery({
    delivery: { ...CANCELLED_DELIVERY, ...change },
    timeline,
    moment: readMoment(makeFacts()),
  }).markup;
const read = (markup: string) =>
  markup
    .replaceAll(/<[^>]+>/g, " ")
    .replaceAll(/\s+/g, " ")
    .replaceAll(/ (?=[:;.,])/g, "")
    .trim();

/** Each step of the track: its look, and its words without its name. */
const track = (markup: string) =>
  [...markup.matchAll(/<li class="(\w+) [^>]*>\s*<span class="step">[^<]*<\/span>([^]*?)<\/li>/g)]
    .map(([, look = "", words = ""]) => `${look} ${read(words).replace("2025-11-20 ", "")}`)
    .join(", ");

const CREATED = entry("created", 900);
const CANCELLED = entry("cancelled", 890);

describe("the steps of an order", () => {
  it.each<[string, Partial<Delivery>, readonly TimelineEntry[], string]>([
    [
      "that was cancelled at once",
      {},
      [CREATED, CANCELLED],
      "past 09:45, unseen not known, unseen did not happen, unseen did not happen, current 09:45",
    ],
    [
      "whose cancellation no read has confirmed",
      { settled: false },
      [CREATED, CANCELLED],
      "past 09:45, unseen not known, unseen not known, unseen not known, current 09:45",
    ],
    [
      "whose pickup only the order itself tells",
      { realPickupTime: ago(800) },
      [CREATED, CANCELLED],
      "past 09:45, unseen not known, past 09:47, unseen not known, current 09:45",
    ],
    [
      "that skipped a step",
      { status: "picked_up" },
      [CREATED, entry("picked_up", 300)],
      "past 09:45, unseen not known, current 09:55, ahead not yet, ahead not yet",
    ],
    [
      "that the provider no longer has",
      { status: "created", goneAt: ago(60) },
      [CREATED],
      "current 09:45, unseen not known, unseen not known, unseen not known, unseen not known",
    ],
  ])("%s are those that were seen", (_which, change, timeline, expected) => {
    expect(track(render(change, timeline))).toBe(expected);
  });

  it("have names", () => {
    expect(read(render({}, [CREATED, CANCELLED]))).toMatch(
      /^Created .* Arrived for pickup .* Picked up .* Arrived for delivery .* Cancelled /,
    );
  });
});

it("an order not yet verified names who reported it when, and a later read that agrees", () => {
  const verified = (entry: TimelineEntry, observedAt: bigint) => {
    const markup = render({ status: "created", settled: false, observedAt }, [entry]);
    return read(/<p class="verified">([^]*?)<\/p>/.exec(markup)?.[1] ?? "");
  };
  expect(verified(CREATED, ago(900))).toBe(
    "▲ Not yet verified: reported by webhook at 2025-11-20 09:45; not yet checked by a read.",
  );
  expect(verified(CREATED, ago(600))).toBe(
    "▲ Not yet verified: reported by webhook at 2025-11-20 09:45; a read at 2025-11-20 09:50 agrees, and a later one will settle it.",
  );
  const byRead = entry("created", 900, { via: "poll", receivedAt: null, observedAt: ago(700) });
  expect(verified(byRead, ago(700))).toBe(
    "▲ Not yet verified: shown by a read at 2025-11-20 09:48, too early to be final; a later one will settle it.",
  );
});

it("an erased order says so", () => {
  expect(render({ erasedAt: ago(60) })).toMatch(/Personal data of this order was erased/);
});
