import { expect, it } from "vitest";
import { showAnswer } from "../../../src/outgoing/outgoingMessage.ts";

const ORDER = JSON.stringify({
  reference: "DO-1",
  status: "created",
  customer: { firstName: "Zoë O'Neil", phone: "+49 221/7" },
});

it.each([
  ["as it was sent", "unknown customer Zoë O'Neil, +49 221/7 of DO-1"],
  ["in capitals", "unknown customer ZOË O'NEIL, +49 221/7 of DO-1"],
  ["escaped for ASCII", String.raw`{"error":"unknown customer Zo\u00eb O\u0027Neil","phone":"+49 221\/7"}`],
  ["as JSON within JSON", JSON.stringify({ body: JSON.stringify({ name: "Zoë O'Neil", at: "+49 221/7" }) })],
  [
    "in an address",
    `/retry?name=${encodeURIComponent("Zoë O'Neil")}&phone=${encodeURIComponent("+49 221/7")}`,
  ],
  ["in HTML", "<p>Zo&#235; O&#x27;Neil</p><p>+49 221&#47;7</p>"],
  ["over several lines", "customer Zoë\n  O'Neil\r\n+49\t221/7"],
])("an answer that repeats personal data of the order is not shown: %s", (_how, answer) => {
  const shown = showAnswer(Buffer.from(answer), [null, ORDER]) ?? "";
  expect(shown).toContain("not shown");
  expect(shown).not.toMatch(/neil|zo.{0,2}|221/i);
});

it("keeps what helps", () => {
  const shown = showAnswer(Buffer.from('{"error":"order DO-1 has an unknown status created"}'), [
    null,
    ORDER,
  ]);
  expect(shown).toBe('{"error":"order DO-1 has an unknown status created"}');
});
