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
  | `signature_${"missing" | "repeated" | "malformed" | "mismatch"}`
  | `timestamp_${"missing" | "repeated" | "malformed" | "outside_tolerance"}`
  | `id_${"missing" | "repeated" | "malformed"}`
  | `value_${"missing" | "repeated" | "malformed"}`
  | "too_many_signatures"
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

export interface FormOptions {
  /** The public address of the endpoint, as the sender has it. */
  readonly url?: string | undefined;
  readonly signaturesMax?: number | undefined;
}
