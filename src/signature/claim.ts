/** The parts of a request that matter to its signature. */
export interface SignedRequest {
  /** Node's `req.headersDistinct`: lower-case names, with each occurrence of a header separate. */
  readonly headersDistinct: NodeJS.Dict<string[]>;
  /** What follows the `?` of the request's target, as received; undefined or "" without one. */
  readonly query?: string | undefined;
  /** The bytes of the body as received, not parsed and serialized again. */
  readonly body: Buffer;
  /** Seconds since 1970, by the local clock. */
  readonly nowSeconds: number;
}

export type SignatureRefusal =
  | "signature_missing"
  | "signature_repeated"
  | "signature_malformed"
  | "signature_mismatch"
  | "too_many_signatures"
  | "timestamp_missing"
  | "timestamp_repeated"
  | "timestamp_malformed"
  | "timestamp_outside_tolerance"
  | "id_missing"
  | "id_repeated"
  | "id_malformed"
  | "value_missing"
  | "value_repeated"
  | "value_malformed"
  | "body_mismatch";

/** Text is signed byte by byte (Latin-1), as Node passes headers. */
export type Chunk = string | Buffer;

/** What a request claims before anything is proved: these bytes, and signatures of them. */
export interface Claim {
  readonly signed: readonly Chunk[];
  readonly signatures: readonly Buffer[];
}

/** What a request claims, or why it cannot be verified. One of the claims must prove true. */
export type Reading =
  | {
      readonly claims: readonly Claim[];
      readonly id: string | null;
      /** When the request was signed, as it says, in seconds since 1970. */
      readonly signedAt?: number | undefined;
    }
  | SignatureRefusal;

export type ReadRequest = (request: SignedRequest) => Reading;

/** What a sender wants to sign. */
export interface Signable {
  /** The event's id. It is also used for every other signed value that `values` does not name. */
  readonly id: string;
  readonly body: Buffer;
  /** Seconds since 1970. */
  readonly nowSeconds: number;
  /** Values of further signed headers, parameters and parts, by `header:NAME`, `query:NAME` or `part:LABEL`. */
  readonly values?: Readonly<Record<string, string>>;
}

/** What a sender adds to a request. */
export interface Seal {
  readonly headers: Record<string, string>;
  /** Parameters of the address, without `?`; "" for none. */
  readonly query: string;
}

/** The bytes to sign, and where their signature goes. */
export interface Draft {
  readonly signed: readonly Chunk[];
  seal(signature: Buffer): Seal;
}

export type WriteRequest = (signable: Signable) => Draft;

export function joinChunks(chunks: readonly Chunk[]): Buffer {
  return Buffer.concat(
    chunks.map((chunk) => (typeof chunk === "string" ? Buffer.from(chunk, "latin1") : chunk)),
  );
}
