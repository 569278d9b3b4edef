import { expect, it } from "vitest";
import {
  judgeWebhooks,
  lossRate,
  STOPPED_AFTER_LOST,
  type WebhookRecord,
} from "../../../src/domain/order/lostEvents.ts";

const healthy: WebhookRecord = {
  configured: true,
  lastEventAt: 90n,
  lost: 0,
  announced: 40,
  lostSinceLastEvent: 0,
};

it.each([
  [{}, "working"],
  [{ configured: false, lastEventAt: null }, "not-configured"],
  [{ lastEventAt: null, announced: 0 }, "never-seen"],
  [{ configured: null, lastEventAt: null }, "never-seen"],
  [{ lost: 1 }, "losing"],
  [{ lost: 2, lostSinceLastEvent: STOPPED_AFTER_LOST - 1 }, "losing"],
  [{ lost: 3, lostSinceLastEvent: STOPPED_AFTER_LOST }, "stopped"],
] as const)("judgeWebhooks tells %j as %s", (change, health) => {
  expect(judgeWebhooks({ ...healthy, ...change })).toBe(health);
});

it("lossRate is the share of the changes to be announced, and undefined without any", () => {
  expect(lossRate({ lost: 1, announced: 3 })).toBe(0.25);
  expect(lossRate({ lost: 0, announced: 3 })).toBe(0);
  expect(lossRate({ lost: 0, announced: 0 })).toBeNull();
});
