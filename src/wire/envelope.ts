import { z } from "zod";

/** The envelope of an event (spec, "Events"), as a provider must send it. @internal */
export const envelopeSchema = z.looseObject({
  id: z.string(),
  type: z.string(),
  created: z.string(),
  livemode: z.boolean(),
  data: z.looseObject({ reference: z.string() }),
});

/** As lenient as the mirror: an event is refused only if nothing can be read from it. */
const readableEnvelope = z.object({
  id: z.string().nullable().catch(null),
  type: z.string().nullable().catch(null),
  created: z.string().nullable().catch(null),
  livemode: z.boolean().nullable().catch(null),
  data: z.unknown(),
});
export type ReadEnvelope = z.infer<typeof readableEnvelope>;

/** The envelope's parts, null where absent or of another type; undefined when `value` is not an object. */
export function readEnvelope(value: unknown): ReadEnvelope | undefined {
  const result = readableEnvelope.safeParse(value);
  return result.success ? result.data : undefined;
}
