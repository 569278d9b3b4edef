import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { ConfigurationError } from "../../../src/domain/errors.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { loadVerifier, type SignedRequest, type Verifier } from "../../../src/signature/verifier.ts";

interface Vector {
  id: string;
  preset?: string;
  scheme?: object;
  secrets: string[];
  headers: Record<string, string>;
  url?: string;
  body?: string;
  bodyRepeat?: [string, number];
  now: number;
  valid: boolean;
  configError?: boolean;
}

/** Public test vectors of Standard Webhooks, Svix and Convoy, which are next to the checkout, not in it. */
const FOLDER = path.resolve(import.meta.dirname, "../../../../shared/vectors");
const FILES = ["standard-webhooks.json", "convoy-shared.json"];
const present = existsSync(FOLDER);

const readJson = (...names: string[]) =>
  JSON.parse(readFileSync(path.join(FOLDER, ...names), "utf8")) as unknown;

const ABSENT = `The public signature vectors DID NOT RUN: there is no folder ${FOLDER}.\n`;

it("finds the public vectors, or reports on stderr that they did not run", () => {
  if (!present) process.stderr.write(ABSENT);
  expect(present ? readdirSync(path.join(FOLDER, "signatures")) : FILES).toEqual(
    expect.arrayContaining(FILES),
  );
});

describe.runIf(present).each(FILES)("public vectors of %s", (file) => {
  const { vectors } = present ? (readJson("signatures", file) as { vectors: Vector[] }) : { vectors: [] };

  it.each(vectors.map((vector) => [vector.id, vector] as const))("%s", (_id, vector) => {
    const load = () =>
      loadVerifier({
        scheme: loadScheme(vector.preset ?? JSON.stringify(vector.scheme)),
        secrets: vector.secrets,
        ...(vector.url === undefined ? {} : { url: vector.url }),
      });
    const [text, times] = vector.bodyRepeat ?? [vector.body ?? "", 1];
    const headersDistinct = Object.fromEntries(
      Object.entries(vector.headers).map(([name, value]) => [name.toLowerCase(), [value]]),
    );
    const request = { headersDistinct, body: Buffer.from(text.repeat(times)), nowSeconds: vector.now };
    const expected = vector.configError ? { refusedAtLoad: true } : { valid: vector.valid };
    expect(outcomeOf(load, request)).toMatchObject(expected);
  });
});

function outcomeOf(load: () => Verifier, request: SignedRequest): object {
  try {
    return load().verify(request);
  } catch (error) {
    return { refusedAtLoad: error instanceof ConfigurationError };
  }
}
