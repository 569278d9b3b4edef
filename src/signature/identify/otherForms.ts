import { hash } from "node:crypto";
import { parseDictionary } from "structured-headers";
import { ALGORITHM_NAMES, findAlgorithm } from "../algorithms.ts";
import { ENCODINGS } from "../encoding.ts";
import { parseObject } from "../forms/jwtForm.ts";
import { parseScheme, SECRET_FORMATS } from "../scheme.ts";
import type { Scheme } from "../scheme.ts";
import { BODY_HASHES } from "../template.ts";
import { listFields } from "./candidates.ts";
import type { CapturedRequest, RequestField } from "./candidates.ts";
import { listKeys } from "./keys.ts";
import { attempt } from "./prove.ts";

const JWT = /^(.*?)([A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,})$/s;

/** Signatures without a template that the request may have been made with; the caller proves them. */
export function* listForms(request: CapturedRequest, { secret }: { secret: string }): Generator<Scheme> {
  const fields = listFields(request);
  for (const field of fields) yield* listJwts(field, request.body, secret);
  yield* listMessages(request);
}

function* listJwts({ place, text }: RequestField, body: Buffer, secret: string): Generator<Scheme> {
  const [, prefix = "", token = ""] = JWT.exec(text) ?? [];
  const [head = "", payload = ""] = token.split(".");
  const { alg } = parseObject(head);
  const claims = parseObject(payload);
  const algorithms = ALGORITHM_NAMES.filter((name) => findAlgorithm(name).jwtName === alg);
  for (const { algorithm, format } of listKeys(secret, algorithms)) {
    for (const [bodyClaim, value] of Object.entries(claims)) {
      for (const bodyHash of BODY_HASHES) {
        const encoding = ENCODINGS.find((each) => sameHash(value, hash(bodyHash, body, each)));
        if (encoding === undefined) continue;
        const timeClaim = ["iat", "exp"].find((name) => typeof claims[name] === "number") ?? null;
        const named = { algorithm, secretFormat: format, bodyClaim, bodyHash, encoding, timeClaim };
        yield* parsed({ form: "jwt", ...place, prefix, ...named });
      }
    }
  }
}

function sameHash(value: unknown, expected: string): boolean {
  return typeof value === "string" && value.replace(/=+$/, "") === expected.replace(/=+$/, "");
}

function* listMessages({ headersDistinct }: CapturedRequest): Generator<Scheme> {
  const input = headersDistinct["signature-input"]?.join(", ");
  if (input === undefined) return;
  for (const [label, alg, components] of readInput(input)) {
    const named = ALGORITHM_NAMES.filter((name) => {
      const { messageName } = findAlgorithm(name);
      return messageName !== null && (alg === undefined || messageName === alg);
    });
    for (const algorithm of named) {
      for (const secretFormat of SECRET_FORMATS) {
        const fields = { form: "http-message", algorithm, secretFormat, components };
        yield* parsed(fields);
        yield* parsed({ ...fields, label });
      }
    }
  }
}

/** Label, algorithm and the components without parameters of each signature; nothing where the header is malformed. */
function readInput(text: string): [label: string, alg: string | undefined, components: string[]][] {
  try {
    return [...parseDictionary(text)].map(([label, [items, parameters]]) => {
      const bare = Array.isArray(items)
        ? items.filter(([, own]) => own.size === 0).map(([name]) => String(name))
        : [];
      const alg = parameters.get("alg");
      return [label, typeof alg === "string" ? alg : undefined, bare];
    });
  } catch {
    return [];
  }
}

/** The secret itself in a field; tried last. */
export function* listTokens(
  fields: readonly RequestField[],
  { secret }: { secret: string },
): Generator<Scheme> {
  if (secret === "") return;
  for (const { place, text } of fields) {
    for (const encoding of ["text", "base64"] as const) {
      const token = encoding === "text" ? secret : Buffer.from(secret).toString("base64");
      if (!text.endsWith(token)) continue;
      const prefix = text.slice(0, -token.length);
      yield* parsed({ form: "token", ...place, prefix, encoding, acceptUnsignedBodies: true });
    }
  }
}

function* parsed(fields: object): Generator<Scheme> {
  const scheme = attempt(() => parseScheme(fields));
  if (scheme) yield scheme;
}
