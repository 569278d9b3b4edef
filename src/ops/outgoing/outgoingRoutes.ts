import { Router } from "express";
import type { Request, Response } from "express";
import type { Pool } from "../../database/database.ts";
import { findOutgoingEndpoint } from "../../health/endpoints.sql.ts";
import { sendAgain } from "../../outgoing/outgoingPlan.sql.ts";
import { findDelivery, readRecentMessages } from "../../outgoing/outgoingReads.sql.ts";
import type { Delivery } from "../../outgoing/outgoingReads.sql.ts";
import { viewerOf } from "../auth/viewer.ts";
import { readField, refuse, sendPage } from "../html/requests.ts";
import { carryOut } from "../lists/carryOut.ts";
import { serveList } from "../lists/serveList.ts";
import { endpointAddress } from "../overview/phrases.ts";
import { renderMessage } from "./messagePage.ts";
import { ENDPOINT_LIST, makeMessageList } from "./outgoingLists.ts";

const NO_ENDPOINT = "There is no endpoint with that name.";
const NO_MESSAGE = "There is no message with that number; delivered ones are kept for a week.";

/** The endpoints of outgoing webhooks, and their messages. */
export function makeOutgoingRoutes(pool: Pool): Router {
  const router = Router();
  router.get("/", serveList(pool, "/ops/outgoing", ENDPOINT_LIST));
  router.get("/:endpointId", async (request, response, next) => {
    const { endpointId } = request.params;
    const endpoint = await findOutgoingEndpoint(pool, endpointId);
    if (endpoint === undefined) return refuse(response, 404, NO_ENDPOINT);
    const list = makeMessageList(endpoint, await readRecentMessages(pool, endpointId));
    return serveList(pool, endpointAddress(endpointId), list)(request, response, next);
  });
  router.get("/:endpointId/:deliveryId", async ({ params }, response) => {
    const delivery = await findMessage(pool, params);
    if (delivery === undefined) return refuse(response, 404, NO_MESSAGE);
    sendPage(response, renderMessage({ delivery, viewer: viewerOf(response) }));
  });
  router.post("/:endpointId/:deliveryId/retry", (request, response) => retry(pool, request, response));
  return router;
}

async function retry(pool: Pool, { params }: Request, response: Response): Promise<void> {
  const delivery = await findMessage(pool, params);
  if (delivery === undefined) return refuse(response, 404, NO_MESSAGE);
  const { endpointId, deliveryId, sourceId } = delivery;
  const target = `message ${deliveryId} to ${endpointId}`;
  const action = { action: "retry_message", sourceId, target };
  await carryOut(pool, response, action, async () => Number(await sendAgain(pool, delivery)));
}

async function findMessage(pool: Pool, params: Request["params"]): Promise<Delivery | undefined> {
  const deliveryId = /^\d{1,18}$/.exec(readField(params["deliveryId"]))?.[0];
  const endpointId = readField(params["endpointId"]);
  return deliveryId === undefined ? undefined : findDelivery(pool, { endpointId, deliveryId });
}
