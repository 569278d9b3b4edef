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

/** Each step of the track: its look, and its words. */
const track = (markup: string) =>
  [...markup.matchAll(/<li class="(\w+) [^>]*>([^]*?)<\/li>/g)].map(
    ([, look = "", words = ""]) => `${look}: ${read(words)}`,
  );

const CREATED = entry("created", 900);
const CANCELLED = entry("cancelled", 890);

describe("the steps of an order", () => {
  it.each<[string, Partial<Delivery>, readonly TimelineEntry[], readonly string[]]>([
    [
      "that was cancelled at once",
      {},
      [CREATED, CANCELLED],
      [
        "past: Created 2025-11-20 09:45",
        "unseen: Arrived for pickup not known",
        "unseen: Picked up did not happen",
        "unseen: Arrived for delivery did not happen",
        "current: Cancelled 2025-11-20 09:45",
      ],
    ],
    [
      "whose cancellation no read has confirmed",
      { settled: false },
      [CREATED, CANCELLED],
      [
        "past: Created 2025-11-20 09:45",
        "unseen: Arrived for pickup not known",
        "unseen: Picked up not known",
        "unseen: Arrived for delivery not known",
        "current: Cancelled 2025-11-20 09:45",
      ],
    ],
    [
      "whose pickup only the order itself tells",
      { realPickupTime: ago(800) },
      [CREATED, CANCELLED],
      [
        "past: Created 2025-11-20 09:45",
        "unseen: Arrived for pickup not known",
        "past: Picked up 2025-11-20 09:47",
        "unseen: Arrived for delivery not known",
        "current: Cancelled 2025-11-20 09:45",
      ],
    ],
    [
      "that skipped a step",
      { status: "picked_up" },
      [CREATED, entry("picked_up", 300)],
      [
        "past: Created 2025-11-20 09:45",
        "unseen: Arrived for pickup not known",
        "current: Picked up 2025-11-20 09:55",
        "ahead: Arrived for delivery not yet",
        "ahead: Delivered not yet",
      ],
    ],
    [
      "that the provider no longer has",
      { status: "created", goneAt: ago(60) },
      [CREATED],
      [
        "current: Created 2025-11-20 09:45",
        "unseen: Arrived for pickup not known",
        "unseen: Picked up not known",
        "unseen: Arrived for delivery not known",
        "unseen: Delivered not known",
      ],
    ],
  ])("%s are those that were seen", (_which, change, timeline, expected) => {
    expect(track(render(change, timeline))).toEqual(expected);
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
