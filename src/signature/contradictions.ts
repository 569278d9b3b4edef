import { findAlgorithm } from "./algorithms.ts";
import type { JwtScheme, MessageScheme, Scheme, SecretFormat, TemplateScheme } from "./scheme.ts";
import { hasName, listPlaces, parseTemplate } from "./template.ts";

type Refuse = (when: boolean, field: string, problem: string) => void;

/** Formats of a secret that can hold a key of that kind. */
const FORMATS: Readonly<Record<string, readonly SecretFormat[]>> = {
  shared: ["utf8", "utf8-nfkd", "base64", "hex", "whsec"],
  ed25519: ["whpk", "hex", "base64", "spki"],
  "P-256": ["spki"],
  "P-384": ["spki"],
  rsa: ["spki"],
};

/** Fields that would make it verify something other than what the person who wrote them believes, and why. */
export function listContradictions(scheme: Scheme): string[] {
  const found: string[] = [];
  const refuse: Refuse = (when, field, problem) => {
    if (when) found.push(`${field}: ${problem}`);
  };
  if (scheme.form !== "http-message") {
    const { header, query } = scheme;
    refuse(
      header === null && query === null,
      "header",
      "is missing; or query names the parameter of the address",
    );
    refuse(
      header !== null && query !== null,
      "query",
      "is given beside header; the signature stands in one of them",
    );
  }
  if (scheme.form === "template") checkTemplate(scheme, refuse);
  if (scheme.form === "http-message") checkMessage(scheme, refuse);
  if (scheme.form === "jwt") checkName(scheme, "jwtName", refuse);
  if (scheme.form !== "token") checkFormat(scheme, refuse);
  return found;
}

function checkTemplate(scheme: TemplateScheme, refuse: Refuse): void {
  const { timestamp, idHeader, separator, prefix, prefixOn } = scheme;
  const { parts, problems } = parseTemplate(scheme.signed);
  for (const problem of problems) refuse(true, "signed", problem);
  const signsTimestamp = hasName(parts, "timestamp");
  const signsId = hasName(parts, "id");
  refuse(signsTimestamp && !timestamp, "signed", "holds {timestamp}, but timestamp names no source for it");
  refuse(signsId && !idHeader, "signed", "holds {id}, but idHeader names no source for it");
  // A timestamp or an id that is not signed can be replaced by anyone and proves nothing.
  refuse(!signsTimestamp && timestamp !== null, "timestamp", "is given, but {timestamp} is not signed");
  refuse(!signsId && idHeader !== null, "idHeader", "is given, but {id} is not signed");

  const timestampLabel = timestamp && "part" in timestamp ? [timestamp.part] : [];
  const otherLabels = listPlaces(parts).flatMap((place) => ("part" in place ? [place.part] : []));
  const labels = [...timestampLabel, ...otherLabels];
  const field = timestampLabel.length > 0 ? "timestamp" : "signed";
  refuse(labels.length > 0 && separator === "", field, "takes a part of the field, but separator is empty");
  const texts = [prefix, ...labels].filter((text) => typeof text === "string" && text !== "").map(String);
  refuse(
    hasAlike(texts),
    field,
    "has a part that cannot be distinguished from the prefix of a signature or another part",
  );
  refuse(new Set(labels).size < labels.length, field, "takes one part for two things");
  refuse(separator !== "" && prefix.includes(separator), "prefix", "holds the separator");
  refuse(
    prefixOn === "first" && (separator === "" || prefix === ""),
    "prefixOn",
    'is "first", which needs a prefix and a separator',
  );

  const timestampHeader = timestamp && "header" in timestamp ? timestamp.header : null;
  const headers = [scheme.header, timestampHeader, idHeader].filter((name) => name !== null);
  refuse(new Set(headers).size < headers.length, "header", "is used for two things");
  const signsItself = listPlaces(parts).some((place) => "header" in place && place.header === scheme.header);
  refuse(signsItself, "signed", "holds the header that carries the signature");
}

/** Whether one text is a prefix of the other, so that a part could be taken for either. */
function hasAlike(texts: readonly string[]): boolean {
  return texts.some((text, index) =>
    texts.some((other, at) => at > index && (text.startsWith(other) || other.startsWith(text))),
  );
}

function checkMessage(scheme: MessageScheme, refuse: Refuse): void {
  refuse(
    !scheme.components.includes("content-digest"),
    "components",
    'must hold "content-digest": nothing else signs the body',
  );
  checkName(scheme, "messageName", refuse);
}

function checkName(scheme: JwtScheme | MessageScheme, name: "jwtName" | "messageName", refuse: Refuse): void {
  refuse(findAlgorithm(scheme.algorithm)[name] === null, "algorithm", `is not one that ${scheme.form} knows`);
}

function checkFormat({ algorithm, secretFormat }: Exclude<Scheme, { form: "token" }>, refuse: Refuse): void {
  const formats = FORMATS[findAlgorithm(algorithm).key] ?? [];
  refuse(
    !formats.includes(secretFormat),
    "secretFormat",
    `must be one of ${formats.join(", ")} for ${algorithm}`,
  );
}
