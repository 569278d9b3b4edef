import type { Pool } from "../../database/database.ts";
import { findOutgoingEndpoint } from "../../health/endpoints.sql.ts";
import type { OutgoingEndpoint } from "../../health/endpoints.sql.ts";
import { reviveDead, setEndpointPaused } from "../../outgoing/outgoingPlan.sql.ts";
import { describeCount } from "../overview/phrases.ts";
import { makePlan } from "../remedies/remedy.ts";
import type { Remedy } from "../remedies/remedy.ts";

/** What an operator can do about an endpoint of outgoing webhooks, by address. */
export const ENDPOINT_REMEDIES: Readonly<Record<string, Remedy>> = {
  "/outgoing-pause": {
    title: "Pause the endpoint",
    action: "pause_endpoint",
    plan: planFor(({ pausedAt, pending }) =>
      pausedAt === null ? `${describeMessages(pending)} would wait, and all new ones.` : null,
    ),
    button: () => "Pause",
    effect: "Attempts under way end. Changes are kept until they are sent, within the limits of retention.",
    apply: async (pool, endpointId) => Number(await setEndpointPaused(pool, { endpointId, paused: true })),
  },
  "/outgoing-resume": {
    title: "Resume the endpoint",
    action: "resume_endpoint",
    plan: planFor(({ pausedAt, pending }) =>
      pausedAt === null ? null : `${describeMessages(pending)} would be sent when due.`,
    ),
    button: () => "Resume",
    effect: "Sending continues within ten seconds.",
    apply: async (pool, endpointId) => Number(await setEndpointPaused(pool, { endpointId, paused: false })),
  },
  "/outgoing-retry": {
    title: "Send messages again",
    action: "retry_endpoint",
    plan: planFor(({ dead }) =>
      dead === 0 ? null : `${describeMessages(dead)} that were given up would be sent again.`,
    ),
    button: () => "Send again",
    effect: "They keep their ids, so the receiver can detect repetitions.",
    apply: reviveDead,
  },
};

function planFor(say: (endpoint: OutgoingEndpoint) => string | null): Remedy["plan"] {
  return async (pool: Pool, endpointId) => {
    const endpoint = await findOutgoingEndpoint(pool, endpointId);
    const sentence = endpoint === undefined ? null : say(endpoint);
    return makePlan(sentence === null ? [] : [sentence]);
  };
}

function describeMessages(count: number): string {
  return `Exactly ${describeCount(count)} ${count === 1 ? "message" : "messages"}`;
}
