import { describe, expect, it } from "vitest";
import { commandOn } from "../../../src/domain/shellWord.ts";
import { COUNT_MAX } from "../../../src/health/conditions/condition.ts";
import { describeAge, describeDelay } from "../../../src/domain/duration.ts";
import { orderAddress } from "../../../src/health/pageAddresses.ts";
import { describeBoundedCount, describeCount, renderSentence } from "../../../src/ops/phrases.ts";
import { html } from "../../../src/html/html.ts";

describe("an age", () => {
  it.each([
    [0, "0 s ago"],
    [0.999, "0 s ago"],
    [-0.5, "0 s ago"],
    [-1, "1 s ahead of this clock"],
    [-90, "1 min 30 s ahead of this clock"],
    [59.9, "59 s ago"],
    [60, "1 min 0 s ago"],
    [3_599.9, "59 min 59 s ago"],
    [3_600, "1 h 0 min ago"],
    [86_399, "23 h 59 min ago"],
    [86_400, "1 d 0 h ago"],
    [694_799, "8 d 0 h ago"],
    [null, "at an unknown time"],
  ])("of %s seconds is: %s", (seconds, words) => {
    expect(describeAge(seconds).replaceAll("\u00a0", " ")).toBe(words);
  });
});

it("shows when a count stopped early", () => {
  expect(describeBoundedCount(0)).toBe("0");
  expect(describeBoundedCount(COUNT_MAX)).toBe("100,000");
  expect(describeBoundedCount(COUNT_MAX + 1)).toBe("more than 100,000");
  expect(describeCount(1_234_567)).toBe("1,234,567");
});

it.each([
  [0.0412, "41 ms"],
  [-0.2, "0 ms"],
  [1, "1.0 s"],
  [59.94, "59.9 s"],
  [60, "1 min 0 s"],
])("a delay of %s seconds is: %s", (seconds, words) => {
  expect(describeDelay(seconds).replaceAll("\u00a0", " ")).toBe(words);
});

it("an order's address can contain any reference", () => {
  expect(orderAddress({ sourceId: "a/b", reference: "x?y#z/../ü" })).toBe(
    "/ops/orders/a%2Fb/x%3Fy%23z%2F..%2F%C3%BC",
  );
  for (const reference of [".", "..", "...", "%2e"]) {
    const { href } = new URL(orderAddress({ sourceId: "live", reference }), "http://mirror");
    expect(href).toBe(`http://mirror${orderAddress({ sourceId: "live", reference })}`);
  }
});

it("shows text between backticks as code, and nothing as markup", () => {
  expect(renderSentence("Run `order-mirror <x> --yes`, or wait.").markup).toBe(
    'Run <code>order-mirror &lt;x&gt; <span class="nowrap">--yes</span></code>, or wait.',
  );
});

it.each(["a`b", "it's `", "\\`'", "`"])(
  "shows a command about the order %s as one piece of code",
  (reference) => {
    const command = commandOn("order", reference);
    expect(renderSentence(`First \`doctor\`, then \`${command}\`, or wait.`).markup).toBe(
      html`First <code>doctor</code>, then <code>${command}</code>, or wait.`.markup,
    );
  },
);
