import { expect, it } from "vitest";
import { parseHttpDate, parseInstant } from "../../../src/domain/order/instant.ts";
import { parseRetryAfter, readRemaining, type RemainingEntry } from "../../../src/provider/rateHeaders.ts";

const entry = (policy: string, remaining: number, resetMs: number | null): RemainingEntry => ({
  policy,
  remaining,
  resetMs,
});

it.each<[string, RemainingEntry[]]>([
  // As the spec shows it.
  [
    '"order-list";r=17;t=4, "sustained";r=180;t=9',
    [entry("order-list", 17, 4_000), entry("sustained", 180, 9_000)],
  ],
  ["sustained;r=3;t=4", [entry("sustained", 3, 4_000)]],
  ['"sustained";r=3', [entry("sustained", 3, null)]],
  // One header must not stop polling for years.
  ['"order-list";r=0;t=999999999', [entry("order-list", 0, 600_000)]],
  // A good entry beside a bad one, and bad ones.
  ['"sustained", "order-list";r=2;t=1', [entry("order-list", 2, 1_000)]],
  ...[
    '"sustained";r=3;t=',
    "3;r=3;t=4",
    '("sustained");r=3;t=4',
    '"sustained";t=4',
    '"sustained";r=-1;t=4',
    '"sustained";r=1.5;t=4',
    '"sustained";r="1";t=4',
    "",
  ].map((field): [string, RemainingEntry[]] => [field, []]),
])("RateLimit: %s", (field, entries) => {
  expect(readRemaining(new Headers({ ratelimit: field }))).toEqual(entries);
});

it("joins several lines of RateLimit into one list", () => {
  const several = new Headers();
  for (const policy of ["order-list", "sustained"]) several.append("ratelimit", `"${policy}";r=1;t=2`);
  expect(readRemaining(several).map(({ policy }) => policy)).toEqual(["order-list", "sustained"]);
});

it.each([
  ["3", 3_000],
  [" 3 ", 3_000],
  ["600", 600_000],
  ["Fri, 20 Nov 2026 12:00:07 GMT", 7_000],
  // At least a second, and otherwise in full.
  ["0", 1_000],
  ["Fri, 20 Nov 2020 12:00:00 GMT", 1_000],
  ["3600", 3_600_000],
  ["Sat, 21 Nov 2026 12:00:00 GMT", 86_400_000],
  ["999999999999999", 3_155_760_000_000],
  // A rate window where nothing is said.
  ...[null, "", "soon", "-1", "1.5", "1e3", "0x10", "3, 4", "2026-11-20T12:00:07Z"].map(
    (field): [string | null, number] => [field, 10_000],
  ),
])("Retry-After of %j is a wait of %d ms", (field, expectedMs) => {
  expect(parseRetryAfter(field, parseInstant("2026-11-20T12:00:00Z"))).toBe(expectedMs);
});

it.each([
  "",
  "Sunday, 06-Nov-94 08:49:37 GMT",
  "Sun Nov  6 08:49:37 1994",
  "Sun, 06 Nov 1994 08:49:37 CET",
  "Sun, 31 Feb 1994 08:49:37 GMT",
  "Sun, 06 Foo 1994 08:49:37 GMT",
  "Sun, 06 Nov 1994 25:49:37 GMT",
  "2026",
])("an HTTP date is not guessed from %j", (field) => {
  expect(parseHttpDate(field)).toBeNull();
});
