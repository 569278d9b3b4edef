import { z } from "zod";
import type { ProviderAnswer, ProviderRequest } from "../provider/http/request.ts";
import { parseAnswer } from "../provider/orderAnswer.ts";
import type { Change } from "./change.ts";
import { get } from "./connection.ts";

export type FedChange = Change & { readonly position: string };
type Ask = (request: ProviderRequest) => Promise<ProviderAnswer>;

const PAGE_MAX = 500;
const ROUTE = "/v1/changes";

const isChange = (value: unknown): value is FedChange =>
  typeof value === "object" && value !== null && "position" in value && typeof value.position === "string";

const pageSchema = z.looseObject({
  data: z.array(z.custom<FedChange>(isChange)),
  hasMore: z.boolean(),
  next: z.string(),
  complete: z.object({ through: z.string(), exceptions: z.number() }).nullish(),
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
  return parseAnswer(pageSchema, `GET ${ROUTE}`, await ask(get(ROUTE, { query })));
}
