import { z } from "zod";
import { UnreadableSnapshotError } from "../domain/errors.ts";
import type { ListedOrder } from "../domain/source/orderSource.ts";
import { readReference, readSnapshot } from "./order.ts";
import { rawElements, rawMember } from "./rawJson.ts";

/** One element of a page: its exact text, and what `JSON.parse` makes of it. */
export interface PageElement {
  readonly raw: string;
  readonly value: unknown;
}

/** A page of GET /v1/orders as the mirror reads it: the elements as they came, not yet read as orders. */
export interface RawPage {
  readonly elements: readonly PageElement[];
  readonly hasMore: boolean;
  /** The limit that the provider reports: it may be lower than the requested one. */
  readonly limit: number;
  readonly offset: number;
}

const pageSchema = z.object({
  data: z.array(z.unknown()),
  hasMore: z.boolean(),
  limit: z.number().int().positive(),
  offset: z.number().int().nonnegative(),
});

/** Reads a list response (spec, "GET /v1/orders"), with its JSON. Throws UnreadableSnapshotError when it is not one. */
export function readPage({ text, value }: { readonly text: string; readonly value: unknown }): RawPage {
  const result = pageSchema.safeParse(value);
  if (!result.success) {
    throw new UnreadableSnapshotError("the list response lacks data, hasMore, limit or offset");
  }
  const { data, hasMore, limit, offset } = result.data;
  const raws = rawElements(rawMember(text, "data") ?? "[]");
  const elements = data.map((element, index) => ({ raw: raws[index] ?? "", value: element }));
  return { elements, hasMore, limit, offset };
}

/** An element of a page as an order, or with its problem. */
export function readListed({ raw, value }: PageElement): ListedOrder {
  try {
    return { kind: "order", snapshot: readSnapshot(raw, value) };
  } catch (error) {
    if (!(error instanceof UnreadableSnapshotError)) throw error;
    return { kind: "unreadable", raw, detail: error.message, reference: readReference(value) };
  }
}
