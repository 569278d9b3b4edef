import { z } from "zod";
import { PUBLIC_KEY } from "./signingKey.ts";
import { openEnvelope } from "./envelope.ts";
import { tryParseJson } from "../domain/parseJson.ts";
import { tryParseInstant } from "../domain/order/instant.ts";

/** The metadata of a Parquet file in which its certificate is. */
export const CERTIFICATE_ENTRY = "order_mirror.certificate";

const STATEMENT_TYPE = "https://in-toto.io/Statement/v1";
const DOCUMENT = "https://github.com/order-mirror/order-mirror/blob/main/docs/certificates.md";

const digest = z.string().regex(/^[0-9a-f]{64}$/);
const time = z.string().refine((text) => tryParseInstant(text) !== undefined);
const count = z.int().min(0);

/** The place in the chain of a source; `previous` is the digest of the statement before, null for the first. */
const link = { source: z.string(), serial: z.int().min(1), previous: digest.nullable(), issuedAt: time };
const period = { since: time, until: time };
const breach = z.strictObject({
  id: z.string(),
  kind: z.string(),
  reference: z.string(),
  updatedAt: time,
  foundBy: z.string(),
  foundAt: time,
  reprovedAt: time.nullable(),
});

const windows = z.strictObject({
  ...period,
  sweep: z.string(),
  provider: z.string(),
  database: z.string(),
  fence: z.string(),
  settleSeconds: z.number(),
  overlapSeconds: z.number(),
  windows: count,
  requests: count,
});

const predicates = {
  key: z.strictObject({ ...link, publicKey: z.string().regex(PUBLIC_KEY), replaces: digest.nullable() }),
  completeness: z.strictObject({
    ...link,
    ...period,
    orders: count,
    /** Orders with a state in the period that the provider no longer has. */
    gone: count,
    /** Orders of which only events, and no read, showed a state in the period. */
    claimed: count,
    proof: z.strictObject({
      provider: z.string(),
      database: z.string(),
      historySince: time,
      safeThrough: time,
      marginSeconds: count,
      /** The windows of the period that the ledger still had; those with the same circumstances are joined. */
      windows: z.array(windows),
    }),
    exceptions: z.array(z.strictObject({ reference: z.string().nullable(), kind: z.string() })),
    breaches: z.array(breach),
  }),
  revocation: z.strictObject({ ...link, ...period, revokes: z.int().min(1), breaches: z.array(breach) }),
};

export type StatementKind = keyof typeof predicates;
type Predicates = { [Kind in StatementKind]: z.infer<(typeof predicates)[Kind]> };
export type Completeness = Predicates["completeness"];
export type Breach = z.infer<typeof breach>;

/** A statement by its kind; `subject` is the digest of what it is about. */
export type Statement = {
  [Kind in StatementKind]: {
    readonly kind: Kind;
    readonly subject: string;
    readonly predicate: Predicates[Kind];
  };
}[StatementKind];

/** Name of the digest of what a kind is about: of states, or of bytes. */
const DIGEST_NAMES = { key: "sha256", completeness: "lthash16_1024_shake256_sha256", revocation: "sha256" };

/** The bytes of an in-toto statement: JSON whose members always have the same order. */
export function writeStatement(statement: Statement): Buffer {
  return Buffer.from(JSON.stringify(describe(statement)));
}

function describe({ kind, subject, predicate }: Statement) {
  const name =
    kind === "key"
      ? `${predicate.source}/key`
      : `${predicate.source}/orders/${predicate.since}/${predicate.until}`;
  return {
    _type: STATEMENT_TYPE,
    subject: [{ name, digest: { [DIGEST_NAMES[kind]]: subject } }],
    predicateType: `${DOCUMENT}#${kind}-v1`,
    // In the order of the schema.
    predicate: predicates[kind].parse(predicate),
  };
}

const statementSchema = z.object({
  subject: z.tuple([z.looseObject({ digest: z.record(z.string(), digest) })]),
  predicateType: z.string(),
  predicate: z.unknown(),
});

/** Undefined if `payload` is not exactly what writeStatement writes. */
export function readStatement(payload: Buffer): Statement | undefined {
  const read = statementSchema.safeParse(tryParseJson(payload.toString())).data;
  const [, name] = /#(key|completeness|revocation)-v1$/.exec(read?.predicateType ?? "") ?? [];
  const kind = name as StatementKind | undefined;
  if (read === undefined || kind === undefined) return undefined;
  const predicate = predicates[kind].safeParse(read.predicate).data;
  const subject = read.subject[0].digest[DIGEST_NAMES[kind]];
  if (predicate === undefined || subject === undefined) return undefined;
  const statement = { kind, subject, predicate } as Statement;
  return writeStatement(statement).equals(payload) ? statement : undefined;
}

/** What a stored certificate says; undefined for any other text. Its signature is not verified. */
export function readCertified({ envelope }: { readonly envelope: string }) {
  const opened = openEnvelope(envelope);
  const statement = opened && readStatement(opened.payload);
  return statement?.kind === "completeness" ? statement : undefined;
}
