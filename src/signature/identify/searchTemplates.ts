import type { KeyObject } from "node:crypto";
import { findAlgorithm } from "../algorithms.ts";
import type { AlgorithmName } from "../algorithms.ts";
import type { Chunk } from "../claim.ts";
import { parseScheme } from "../scheme.ts";
import type { SecretFormat, TemplateScheme } from "../scheme.ts";
import { listAtoms, listBodies } from "./atoms.ts";
import { algorithmsFor } from "./candidates.ts";
import type { Candidate, RequestField } from "./candidates.ts";
import type { IdentifyOptions } from "./identifyScheme.ts";
import { listLayouts, listSurroundings } from "./layout.ts";
import { listKeys } from "./keys.ts";
import { attempt, verifiesAll } from "./prove.ts";
import { listSequences } from "./sequences.ts";
import type { Sequence } from "./sequences.ts";

/** About ten seconds of signing; a public key costs two hundred times as much as a short hash. */
const BYTES_MAX = 4e9;
const TEXTS_MAX = 1_500_000;
const PUBLIC_KEY_COST = 200;
const TEXT_COST = 200;

export interface Search {
  readonly schemes: readonly TemplateScheme[];
  readonly tried: number;
  readonly unsafe: readonly string[];
}

interface Trial {
  readonly algorithm: AlgorithmName;
  readonly format: SecretFormat;
  readonly key: KeyObject;
  readonly candidates: readonly Candidate[];
}

/** Signs every sequence with every key until the result is one of the candidates, and derives the scheme from it. */
export function searchTemplates(
  options: IdentifyOptions,
  { fields, candidates }: { fields: readonly RequestField[]; candidates: readonly Candidate[] },
): Search {
  const [request] = options.requests;
  const trials = listTrials(options.secret, candidates);
  if (!request || trials.length === 0) return { schemes: [], tried: 0, unsafe: [] };
  const layouts = listLayouts(candidates);
  const atoms = listAtoms(request, { fields, candidates, layouts, url: options.url });
  const unsafe = new Set<string>();
  let tried = 0;
  let cost = 0;
  for (const sequence of listSequences(atoms, listBodies(request, atoms))) {
    const signed: Chunk[] = sequence.hasBody
      ? [sequence.before, request.body, sequence.after]
      : [sequence.before];
    for (const trial of trials) {
      tried += 1;
      cost +=
        ((sequence.hasBody ? request.body.length : 0) + TEXT_COST) *
        (trial.key.type === "secret" ? 1 : PUBLIC_KEY_COST);
      const hits = findHits(trial, signed);
      if (hits.length === 0) continue;
      const schemes = derive(sequence, trial, hits, unsafe).filter((scheme) => verifiesAll(scheme, options));
      if (schemes.length > 0) return { schemes: schemes.slice(0, 3), tried, unsafe: [...unsafe] };
    }
    if (cost > BYTES_MAX || tried > TEXTS_MAX) break;
  }
  return { schemes: [], tried, unsafe: [...unsafe] };
}

/** Each kind of key that the secret can be, with the algorithms whose signatures have the length of a candidate. */
function listTrials(secret: string, candidates: readonly Candidate[]): Trial[] {
  const names = new Set(candidates.flatMap(({ bytes }) => algorithmsFor(bytes.length)));
  return listKeys(secret, [...names]).map(({ algorithm, format, key }) => ({
    algorithm,
    format,
    key,
    candidates: candidates.filter(({ bytes }) => findAlgorithm(algorithm).fits(bytes.length)),
  }));
}

function findHits({ algorithm, key, candidates }: Trial, signed: readonly Chunk[]): Candidate[] {
  const test = findAlgorithm(algorithm).makeTest(key, signed);
  return candidates.filter(({ bytes }) => test(bytes));
}

/** The schemes that this finding can mean, the likeliest first. */
function derive(
  sequence: Sequence,
  trial: Trial,
  hits: readonly Candidate[],
  unsafe: Set<string>,
): TemplateScheme[] {
  const layout = sequence.atoms.find((atom) => atom.layout)?.layout;
  const schemes: TemplateScheme[] = [];
  for (const hit of hits) {
    if (layout && layout.field !== hit.field) continue;
    for (const surroundings of listSurroundings(hit, layout)) {
      const fields = { ...surroundings, ...hit.field.place, ...describeText(sequence) };
      const { algorithm, format: secretFormat } = trial;
      const { encoding } = hit;
      const scheme = attempt(
        () => parseScheme({ ...fields, algorithm, secretFormat, encoding }),
        (problem) => unsafe.add(problem),
      );
      if (scheme?.form === "template") schemes.push(scheme);
    }
  }
  return schemes;
}

function describeText({
  atoms,
  template,
}: Sequence): Pick<TemplateScheme, "signed"> & Partial<TemplateScheme> {
  const time = atoms.find(({ kind }) => kind === "time");
  const id = atoms.find(({ kind }) => kind === "id");
  return {
    signed: template,
    ...(time?.place && { timestamp: { ...time.place, unit: time.unit ?? "s" } }),
    ...(id?.place && "header" in id.place && { idHeader: id.place.header }),
  };
}
