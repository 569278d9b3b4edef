import { z } from "zod";
import { control, fields } from "./control.ts";
import type { Control, ControlDeps } from "./control.ts";
import { readAttempts, readEvents } from "./control.sql.ts";
import { resendEvent } from "../events/emitEvents.ts";
import { runScenario } from "./runScenario.ts";

const EVENTS_DEFAULT = 50;
const EVENTS_MAX = 5_000;
const none = z.strictObject({});

export function makeEventControls({ state, faultTimer }: ControlDeps): readonly Control[] {
  return [
    control(
      ["GET", "/events", "The newest events with their deliveries"],
      z.strictObject({
        reference: z.string().max(255).optional(),
        limit: fields.count(EVENTS_MAX).default(EVENTS_DEFAULT),
      }),
      ({ reference = null, limit }) => readEvents(state.pool, { reference, limit }),
    ),
    control(["GET", "/deliveries/:delivery", "The attempts of one delivery"], none, (_given, params) =>
      readAttempts(state.pool, Number(params["delivery"]) || 0),
    ),
    control(["POST", "/events/:event/resend", "Sends an event again"], none, async (_given, params) => {
      const sent = await state.write((connection) => resendEvent(state, connection, params["event"] ?? ""));
      state.wake();
      return { deliveries: sent };
    }),
    control(
      ["POST", "/scenarios", "Triggers a scenario: its name, a reference and its options"],
      z.looseObject({ scenario: z.string().max(100), reference: z.string().max(255).optional() }),
      ({ scenario, reference, ...options }) =>
        runScenario(state, faultTimer, { name: scenario, reference, options }),
    ),
  ];
}
