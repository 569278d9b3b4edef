import { z } from "zod";
import { refuseParameter } from "./errors.ts";

/** The parameters of a request's address. */
export function readParameters(url: string): URLSearchParams {
  const start = url.indexOf("?");
  return new URLSearchParams(start === -1 ? "" : url.slice(start + 1));
}

/**
 * Parses parameters with a schema whose messages complete "<name> must be …".
 *
 * Unknown parameters are ignored, so that software written for the provider keeps working; a repeated or unreadable one
 * is refused instead of guessed. Throws RefusedRequestError, 422 invalid_request.
 */
export function parseParameters<Schema extends z.ZodType>(
  schema: Schema,
  parameters: URLSearchParams,
): z.infer<Schema> {
  const result = schema.safeParse(collectParameters(parameters));
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw refuseParameter(`${String(issue?.path[0])} must be ${issue?.message}.`);
}

/** A parameter that is a whole number in decimal digits, bounds inclusive. */
export function wholeNumber({ min, max }: { min: number; max: number }) {
  const rule = `a whole number from ${min} to ${max}`;
  return z
    .string({ error: rule })
    .regex(/^\d{1,10}$/, rule)
    .meta({ type: "integer", minimum: min, maximum: max })
    .transform(Number)
    .refine((value) => value >= min && value <= max, rule);
}

/** A repeated parameter becomes a list, which no rule accepts. */
function collectParameters(parameters: URLSearchParams): Record<string, unknown> {
  const names = new Set(parameters.keys());
  return Object.fromEntries(
    [...names].map((name) => {
      const values = parameters.getAll(name);
      return [name, values.length === 1 ? values[0] : values];
    }),
  );
}
