import type { z } from "zod";
import { describeUnknownName } from "../domain/unknownName.ts";
import { parseParameters } from "../wire/listParameters.ts";
import { refuseParameter } from "../wire/refusal.ts";

/**
 * Parses the parameters of an address. Throws RefusedRequestError, 422 invalid_request, for an invalid one and for an
 * unknown one: ignored, a misspelt filter would answer with all orders, and a misspelt `complete` without the promise
 * that it asks for.
 */
export function parseQuery<Schema extends z.ZodObject>(
  schema: Schema,
  parameters: URLSearchParams,
): z.infer<Schema> {
  const known = Object.keys(schema.shape);
  for (const name of parameters.keys())
    if (!known.includes(name)) throw refuseParameter(describeUnknownName("parameter", name, known));
  return parseParameters(schema, parameters);
}
