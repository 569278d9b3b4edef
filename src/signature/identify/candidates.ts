import { ALGORITHM_NAMES, findAlgorithm } from "../algorithms.ts";
import type { AlgorithmName } from "../algorithms.ts";
import { decodeStrictly, ENCODINGS } from "../encoding.ts";
import type { Encoding } from "../encoding.ts";
import { listParameters } from "../place.ts";

/** One request of the provider as received; the bytes of the body must be the ones that were signed. */
export interface CapturedRequest {
  /** Lower-case names, with each occurrence of a header separate. */
  readonly headersDistinct: NodeJS.Dict<string[]>;
  readonly body: Buffer;
  /** Path and query of the request line, where the capture holds one. */
  readonly target?: string | undefined;
}

/** A header or a parameter of the address, and its text. */
export interface RequestField {
  readonly place: { readonly header: string } | { readonly query: string };
  readonly text: string;
}

/** A run of characters that can be a signature. */
export interface Candidate {
  readonly field: RequestField;
  readonly start: number;
  readonly end: number;
  readonly encoding: Encoding;
  readonly bytes: Buffer;
}

const RUNS: Readonly<Record<Encoding, RegExp>> = {
  hex: /[0-9a-fA-F]{40,}/g,
  base64: /[A-Za-z0-9+/]{26,}={0,2}/g,
  base64url: /[A-Za-z0-9_-]{26,}={0,2}/g,
};
/** The commonest form of an id. It is not a signature, although base64url has all its letters. */
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const DIGEST_BYTES = [20, 32, 48, 64, 96];

export function queryOf({ target }: CapturedRequest): string {
  const at = target?.indexOf("?") ?? -1;
  return target === undefined || at === -1 ? "" : target.slice(at + 1);
}

/** Every header and every parameter of the address that occurs once: repeated ones are refused in any case. */
export function listFields(request: CapturedRequest): RequestField[] {
  const fields: RequestField[] = [];
  for (const [header, values] of Object.entries(request.headersDistinct)) {
    const [text, ...others] = values ?? [];
    if (text !== undefined && others.length === 0) fields.push({ place: { header }, text });
  }
  const parameters = listParameters(queryOf(request)).filter(([name]) => name !== "");
  for (const [query, text] of parameters) fields.push({ place: { query }, text });
  return fields;
}

/** Every run that can be a signature, from both of its ends: the text before may use the same letters. */
export function listCandidates(fields: readonly RequestField[]): Candidate[] {
  const found = new Map<string, Candidate>();
  for (const [at, field] of fields.entries()) {
    for (const encoding of ENCODINGS) {
      for (const { index, 0: run } of field.text.matchAll(RUNS[encoding])) {
        for (const [start, end] of UUID.test(run) ? [] : listCuts(run, encoding)) {
          const bytes = decodeStrictly(run.slice(start, end), encoding);
          if (!bytes || algorithmsFor(bytes.length).length === 0) continue;
          const candidate = { field, start: index + start, end: index + end, encoding, bytes };
          const isTwin =
            encoding === "base64url" && found.has(`${at} base64 ${candidate.start} ${candidate.end}`);
          // Both alphabets have these letters: the padding shows which of them the sender is likely to use.
          if (isTwin && run.slice(start, end).endsWith("=")) continue;
          found.set(`${at} ${encoding} ${candidate.start} ${candidate.end}`, candidate);
        }
      }
    }
  }
  return [...found.values()];
}

function listCuts(run: string, encoding: Encoding): [number, number][] {
  const cuts: [number, number][] = [[0, run.length]];
  const bare = run.replace(/=+$/, "").length;
  for (const bytes of DIGEST_BYTES) {
    const letters = encoding === "hex" ? bytes * 2 : Math.ceil((bytes * 4) / 3);
    if (letters >= bare) continue;
    cuts.push([bare - letters, run.length], [0, letters]);
  }
  return cuts;
}

/** The algorithms whose signatures can have that many bytes, the strongest of each kind first. */
export function algorithmsFor(bytes: number): AlgorithmName[] {
  return ALGORITHM_NAMES.filter((name) => findAlgorithm(name).fits(bytes));
}
