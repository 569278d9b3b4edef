import { randomBytes } from "node:crypto";
import { z } from "zod";
import { applyChange, control, fields } from "./control.ts";
import type { Control, ControlDeps } from "./control.ts";
import { deleteEndpoint } from "../events/event.sql.ts";
import { setWebhook } from "../events/webhooks.ts";
import { refused } from "../api/errors.ts";

const none = z.strictObject({});
const webhookSchema = z.strictObject({
  organization: fields.organization,
  mode: fields.mode,
  url: z.string().max(2_000),
  secret: z.string().max(1_000),
  scheme: z.string().max(4_000).optional(),
  name: z.string().max(100).optional(),
});
const keySchema = z.strictObject({
  organization: fields.organization,
  mode: fields.mode,
  apiKey: z
    .string()
    .regex(/^[a-z0-9]+_(live|test)_\w{1,100}$/)
    .optional(),
});

/** The "Developers" part of the provider's dashboard: webhook endpoints and API keys. */
export function makeAccessControls({ state }: ControlDeps): readonly Control[] {
  return [
    control(
      ["POST", "/webhooks", "Adds or replaces an endpoint"],
      webhookSchema,
      async ({ organization, ...request }) => {
        const endpoint = await setWebhook(state, { organizationId: organization, ...request });
        return { endpointId: endpoint.endpointId, url: endpoint.url };
      },
    ),
    control(
      ["DELETE", "/webhooks/:endpoint", "Removes an endpoint"],
      none,
      async (_given, { endpoint = "" }) => {
        const existed = await state.write((connection) => deleteEndpoint(connection, endpoint));
        if (!existed) throw refused(404, "not_found", "There is no such endpoint.");
        return { deleted: endpoint };
      },
    ),
    control(["POST", "/keys", "Adds an API key"], keySchema, async ({ organization, mode, apiKey }) => {
      state.directory.getOrganization(organization);
      const made = apiKey ?? `dos_${mode}_${randomBytes(8).toString("hex")}`;
      const livemode = mode === "live";
      if (!made.includes(`_${mode}_`)) {
        throw refused(422, "wrong_mode", "The key's infix must name its mode.");
      }
      await applyChange(state, ({ keys }) =>
        keys.some((key) => key.apiKey === made)
          ? {}
          : { keys: [...keys, { apiKey: made, organizationId: organization, livemode }] },
      );
      return { apiKey: made };
    }),
    control(["DELETE", "/keys/:key", "Revokes an API key"], none, async (_given, { key = "" }) => {
      await applyChange(state, ({ keys }) => {
        const others = keys.filter(({ apiKey }) => apiKey !== key);
        if (others.length === keys.length) throw refused(404, "not_found", "There is no such key.");
        return { keys: others };
      });
      return { revoked: true };
    }),
  ];
}
