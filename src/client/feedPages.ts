import { z } from "zod";
import type { ProviderAnswer, ProviderRequest } from "../provider/exchange.ts";
import { makeUnreadable, parseAnswer } from "../provider/exchange.ts";
import { looseOrder, NO_PROGRESS } from "./answers.ts";
import type { Change } from "./change.ts";
import { get } from "./connection.ts";

export type FedChange = Change & { readonly position: string };
type Ask = (request: ProviderRequest) => Promise<ProviderAnswer>;

const PAGE_MAX = 500;
/** In characters. A mirror's are of at most 41. */
const POSITION_MAX = 200;
const ROUTE = "/v1/changes";

export const positionSchema = z.string().max(POSITION_MAX);

const knownMembers = z.object({
  position: positionSchema,
  reference: z.string(),
  revision: z.number(),
  status: z.string(),
  /** Later releases may know more; the snapshot is the client's own. */
  verdict: z.string().refine((verdict) => verdict !== "snapshot"),
  updatedAt: z.string(),
  changedAt: z.string(),
  before: looseOrder.nullable(),
  after: looseOrder.nullable(),
});
/** The change as it was sent, with members that this release does not know. */
export const changeSchema = z.custom<FedChange>((value) => knownMembers.safeParse(value).success);

export const completeSchema = z.object({ through: z.string(), exceptions: z.number() });

const pageSchema = z.looseObject({
  data: z.array(changeSchema),
  hasMore: z.boolean(),
  next: positionSchema,
  complete: completeSchema.nullish(),
});

/** The position behind the last change. If one arrives at the same moment, it is before this position or after it. */
export async function readFeedEnd(ask: Ask): Promise<string> {
  return (await readPage(ask, { after: "latest", limit: 1 })).next;
}

/** The changes that exist after a position, by pages; `next` is the position behind a page. */
export async function* readFeedPages(ask: Ask, after: string) {
  let position = after;
  let hasMore = true;
  while (hasMore) {
    const page = await readPage(ask, { after: position, limit: PAGE_MAX });
    yield page;
    position = page.next;
    ({ hasMore } = page);
  }
}

async function readPage(ask: Ask, { after, limit }: { after: string; limit: number }) {
  const query = new URLSearchParams({ after, limit: String(limit) });
  const endpoint = `GET ${ROUTE}`;
  const answer = await ask(get(ROUTE, { query }));
  const page = parseAnswer(pageSchema, endpoint, answer);
  if (page.hasMore && page.next === after) throw makeUnreadable(endpoint, answer, NO_PROGRESS);
  return page;
}
