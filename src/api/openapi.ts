import { z } from "zod";
import { OUTGOING_TYPES } from "../domain/order/outgoing.ts";
import { VERSION } from "../runtime/version.ts";
import {
  createOrderSchema,
  errorBodySchema,
  listBranchesResponseSchema,
  listOrdersResponseSchema,
  quoteResponseSchema,
  updateOrderSchema,
  validateAddressResponseSchema,
  addressSchema,
} from "../wire/api.ts";
import { envelopeSchema } from "../wire/envelope.ts";
import { orderResponseSchema, orderSchema } from "../wire/order.ts";
import { changeSchema, completenessSchema } from "../changes/changeJson.ts";
import { ENDPOINTS, INCOMING, OUTGOING, type ApiAnswer, type ApiEndpoint } from "./openapiEndpoints.ts";

type JsonSchema = Record<string, unknown>;

/** Bodies by the names that the endpoints use; all schemas of parsed and written bodies. */
const SCHEMAS = {
  Order: orderSchema,
  OrderAnswer: orderResponseSchema,
  OrderPage: listOrdersResponseSchema.extend({
    revisions: z
      .array(z.object({ revision: z.number().int(), changedAt: z.string() }))
      .optional()
      .describe("With revisions=1: how often each order of `data` has changed, and when it last did."),
  }),
  BranchPage: listBranchesResponseSchema,
  Change: changeSchema,
  StreamedEvent: z.union([
    z.object({
      event: z.literal("change"),
      id: z.string().describe("The position of the change."),
      data: changeSchema,
    }),
    z.object({
      event: z.literal("complete"),
      id: z.string().describe("The position of the last change."),
      data: completenessSchema.extend({ position: z.string() }),
    }),
  ]),
  OutgoingMessage: z.object({
    type: z.enum(OUTGOING_TYPES),
    timestamp: z.string().describe("The mirror's time of the change."),
    source: z.string(),
    data: changeSchema,
  }),
  ChangePage: z.object({
    data: z.array(changeSchema),
    hasMore: z.boolean(),
    next: z.string().describe("For `after`, even if there is nothing new."),
    complete: completenessSchema
      .nullable()
      .describe("What holds at `next`; null while not everything that is proved has been given."),
    request_id: z.string(),
  }),
  NewOrder: createOrderSchema,
  OrderChange: updateOrderSchema,
  Quote: quoteResponseSchema,
  Address: addressSchema,
  AddressCheck: validateAddressResponseSchema,
  Event: envelopeSchema,
  EventRefusal: z.object({ error: z.string() }),
  Refusal: errorBodySchema,
} as const satisfies Record<string, z.ZodType>;
export type SchemaName = keyof typeof SCHEMAS;

const INTRODUCTION =
  "The provider's own reads, answered from the mirror in the provider's format, and features that only a mirror can offer. Every answer with orders has X-Safe-Through, up to when it is complete, and X-Safe-Through-Exceptions, the number of orders, up to 1,000, that were seen but could not be read or confirmed.";

const TOKEN =
  "A token of API_TOKENS; bound to one source, which the header X-Source may name. Without any token, with LOCAL_TRUST, X-Source selects the source, by default live.";

const TAGS = {
  Orders: "The provider's reads.",
  Changes: "Every change of every order, as a list and as a stream.",
  Exports: "All orders of a filter in one file.",
  Writes: "The provider's writes, with WRITE_THROUGH.",
  Webhooks: "Events from the provider, and messages to the business's own endpoints.",
} satisfies Record<ApiEndpoint["tag"], string>;

/**
 * The OpenAPI 3.1 document of the read API, the change feed, exports, writes, the webhook endpoint, and outgoing
 * webhooks.
 */
export function describeApi() {
  return {
    openapi: "3.1.0",
    info: {
      title: "order-mirror",
      version: VERSION,
      description: INTRODUCTION,
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/" }],
    security: [{ token: [] }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths: describePaths([...ENDPOINTS, ...INCOMING]),
    webhooks: describePaths(OUTGOING),
    components: {
      schemas: describeSchemas(),
      securitySchemes: { token: { type: "http", scheme: "bearer", description: TOKEN } },
    },
  };
}

function describePaths(endpoints: readonly ApiEndpoint[]) {
  const paths: Record<string, Record<string, ReturnType<typeof describeOperation>>> = {};
  for (const endpoint of endpoints) {
    paths[endpoint.path] = { ...paths[endpoint.path], [endpoint.method]: describeOperation(endpoint) };
  }
  return paths;
}

function describeOperation(endpoint: ApiEndpoint) {
  const { id, tag, summary, description, path, query, headers = {}, body, answers, open } = endpoint;
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) =>
    describeParameter(name, "path", PATH_MEANINGS[name] ?? ""),
  );
  const inHeader = Object.entries(headers).map(([name, meaning]) =>
    describeParameter(name, "header", meaning),
  );
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(description === undefined ? {} : { description }),
    ...(open === true ? { security: [] } : {}),
    parameters: [...inPath, ...(query === undefined ? [] : describeQuery(query)), ...inHeader],
    ...(body === undefined
      ? {}
      : { requestBody: { required: true, content: { "application/json": { schema: refer(body) } } } }),
    responses: Object.fromEntries(
      Object.entries(answers).map(([status, answer]) => [status, describeAnswer(answer)]),
    ),
  };
}

const PATH_MEANINGS: Readonly<Record<string, string>> = {
  reference: "The provider's reference, or the externalOrderId.",
  source: "Name of the source, such as live.",
};

function describeAnswer({ description, schema, type, events }: ApiAnswer): {
  description: string;
  content?: Record<string, { schema: JsonSchema }>;
} {
  if (schema !== undefined)
    return { description, content: { "application/json": { schema: refer(schema) } } };
  if (type === undefined) return { description };
  // Version 3.2 of OpenAPI calls it itemSchema.
  const consists =
    events === undefined
      ? {}
      : { contentMediaType: type, contentSchema: { type: "array", items: refer(events) } };
  return { description, content: { [type]: { schema: { type: "string", ...consists } } } };
}

function refer(name: SchemaName): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}

/** Parameters before parsing. All are optional, because each has a default or means no condition. */
function describeQuery(query: z.ZodObject) {
  const { properties = {} } = z.toJSONSchema(query, { io: "input", override: tidy });
  return Object.entries(properties).map(([name, schema]) => {
    const { description = "", ...rest } = schema as JsonSchema & { description?: string };
    return describeParameter(name, "query", description, rest);
  });
}

function describeParameter(
  name: string,
  place: "path" | "query" | "header",
  description: string,
  schema: JsonSchema = { type: "string" },
) {
  return { name, in: place, required: place === "path", description, schema };
}

/** A number in an address is matched as text, which does not help a reader. */
function tidy({ jsonSchema }: { jsonSchema: JsonSchema }): void {
  if (jsonSchema["type"] === "integer") delete jsonSchema["pattern"];
}

function describeSchemas(): Record<string, JsonSchema> {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(SCHEMAS)) registry.add(schema, { id });
  const { schemas } = z.toJSONSchema(registry, { uri: (id) => `#/components/schemas/${id}` });
  for (const schema of Object.values(schemas)) {
    // The document states both for all of them.
    delete schema.$schema;
    delete schema.$id;
  }
  return schemas as Record<string, JsonSchema>;
}
