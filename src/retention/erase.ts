import type { Pool } from "../database/database.ts";
import { countErasure, readExternalOrderIds, withDecisionsAtRest, writeErasure } from "./erasure.sql.ts";
import type { ErasureCount, ErasureSubject, NamingInput } from "./erasure.sql.ts";
import {
  readDecidedThrough,
  readUnnamedEvents,
  readUnnamedReads,
  readUnnamedSince,
} from "./erasureSearch.sql.ts";
import type { UnnamedInput } from "./erasureSearch.sql.ts";
import { findMention } from "./mentions.ts";
import type { Mention, OrderNames } from "./mentions.ts";

/** Input that may be about the order: a person has to look. */
export interface DoubtfulInput {
  /** `event:` and a position in the inbox, or `quarantined:` and a number in quarantine. */
  readonly entry: string;
  readonly mention: Exclude<Mention, "named" | "none">;
}

export interface ErasureReport extends ErasureCount {
  readonly doubtful: readonly DoubtfulInput[];
}

/** Finds what an erasure of this order would concern, and changes nothing. */
export async function previewErasure(pool: Pool, subject: ErasureSubject): Promise<ErasureReport> {
  const names = await namesOf(pool, subject);
  const input: MentionedInput[] = [];
  await collectAll(pool, subject.sourceId, (one) => keepMentioned(input, one, names));
  return { ...(await countErasure(pool, subject, namingInput(input))), doubtful: doubtfulInput(input) };
}

/**
 * Erases the personal data of an order everywhere; applyBatch redacts whatever arrives later. `also` are entries of an
 * earlier report that a person has assigned to the order. All or nothing.
 *
 * Bodies are searched while batches continue. Only what was decided during the search is searched again while they
 * wait. Throws UnavailableError if the table of orders is locked for too long; nothing was done then.
 */
export async function eraseOrder(
  pool: Pool,
  subject: ErasureSubject,
  also: readonly string[] = [],
): Promise<ErasureReport> {
  const { sourceId } = subject;
  const names = await namesOf(pool, subject);
  const input: MentionedInput[] = [];
  const keep = (one: UnnamedInput) => keepMentioned(input, one, names);
  const searchedFrom = await withDecisionsAtRest(pool, readDecidedThrough);
  await collectAll(pool, sourceId, keep);
  // After a long search there is much to search again: most of that, too, without the lock.
  const searchedAgainFrom = await withDecisionsAtRest(pool, readDecidedThrough);
  for (const one of await readUnnamedSince(pool, sourceId, searchedFrom)) keep(one);
  return withDecisionsAtRest(pool, async (client) => {
    for (const one of await readUnnamedSince(client, sourceId, searchedAgainFrom)) keep(one);
    const erased = await writeErasure(client, subject, namingInput(input, also));
    return { ...erased, doubtful: doubtfulInput(input).filter(({ entry }) => !also.includes(entry)) };
  });
}

interface MentionedInput {
  readonly kind: UnnamedInput["kind"];
  readonly id: string;
  readonly mention: Exclude<Mention, "none">;
}

async function namesOf(pool: Pool, subject: ErasureSubject): Promise<OrderNames> {
  return { reference: subject.reference, externalOrderIds: await readExternalOrderIds(pool, subject) };
}

async function collectAll(pool: Pool, sourceId: string, keep: (input: UnnamedInput) => void): Promise<void> {
  for (const readPart of [readUnnamedEvents, readUnnamedReads]) {
    for (let after: string | null = "0"; after !== null;) {
      const { input, next } = await readPart(pool, sourceId, after);
      for (const one of input) keep(one);
      after = next;
    }
  }
}

function keepMentioned(kept: MentionedInput[], { kind, id, body }: UnnamedInput, names: OrderNames): void {
  const mention = findMention(body, names);
  if (mention !== "none") kept.push({ kind, id, mention });
}

function namingInput(input: readonly MentionedInput[], also: readonly string[] = []): NamingInput {
  const ids = (wanted: UnnamedInput["kind"]) =>
    input
      .filter(
        ({ kind, id, mention }) => kind === wanted && (mention === "named" || also.includes(`${kind}:${id}`)),
      )
      .map(({ id }) => id);
  return { events: ids("event"), quarantined: ids("quarantined") };
}

function doubtfulInput(input: readonly MentionedInput[]): DoubtfulInput[] {
  const doubtful = new Map<string, DoubtfulInput>();
  for (const { kind, id, mention } of input) {
    const entry = `${kind}:${id}`;
    if (mention !== "named") doubtful.set(entry, { entry, mention });
  }
  return [...doubtful.values()];
}
