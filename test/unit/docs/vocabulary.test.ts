import { readdirSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";

/** Words that the glossary of docs/ARCHITECTURE.md has replaced, and what to write instead. */
const RETIRED: readonly (readonly [RegExp, string])[] = [
  [/doorbell|\brung\b|\brang\b|\bringers?\b/i, "notifier, notify"],
  [/waiting ?room/i, "commit queue"],
  [/pass(?:es|ed|ing)? on\b|passOn|PassedRequest/i, "forward"],
  [/pass(?:es|ed)? over\b|passOver/i, "skip"],
  [/\bchores?\b/i, "leader task"],
  [/housekeep|\bkeepers?\b/i, "retention, alerting, store"],
  [/\btraits?\b|Traits?\b/, "behaviour, aspect"],
  [/\btold\b|told_|_told|\btell(?:s|ing)?By/, "notified of, distinguished, reported"],
  [/\bpark(?:s|ed|ing)?\b/i, "quarantine"],
  [/\bwish(?:es|ed)?\b/i, "request"],
  [/\bopenWorks?\b|\bworkList\b|\bwatchWork\b/i, "task"],
  [/miswired/i, "body_already_read"],
  [/\bspending\b/i, "request usage"],
  [/sideServer/i, "health server"],
  [/settleFeed|settleDelivery|settleStored|settleOutcome/, "settle is the settle time only"],
  [/\bliveFeed\b|\bliveSources\b|"live-word"/i, "live is the mode of a source only"],
  [/\b(?:begins?|begun) anew\b/i, "start again"],
];

/** Unidiomatic phrases that documents and comments must not use, and what to write instead. */
const FOREIGN: readonly (readonly [RegExp, string])[] = [
  [/\bgo(?:es|ne)? on (?:where|from|behind|by itself)\b/i, "continue, resume"],
  [/\bto be had\b|\bcan(?:not)? be had\b|\bhad back\b/i, "available, restored"],
  [/\bnobody is needed\b/i, "no action needed"],
  [/\bnow and then\b/i, "periodically, occasionally"],
  [/\banew\b/i, "again"],
  [/\bhangs? together\b/i, "overlap, be contiguous"],
  [/\bwithout a word\b|\bin silence\b/i, "silently"],
  [/\b(?:takes?|took) down what\b|\bwritten down\b/i, "record"],
  [/\bvouch(?:es|ed)? for\b/i, "claim"],
  [/\bcounts? no more\b|\bleads? no more\b/i, "no longer"],
  [/\bat the least\b|\bat the most\b/i, "at least, at most"],
  [/\bis told (?:of|to|that|when|in)\b/i, "notified, asked, learns"],
  [
    /^\s*(?:\/\*\*|\*|\/\/|--) Has (?:the|each|a|an|jobs|workers|statements)\b/,
    "a plain verb: Prepares statements",
  ],
  [/\bwhom\b.*\bof which\b/i, "two sentences"],
];
/** Comments of code, and every line of a document. */
const isProse = (file: string, line: string) =>
  /\.md$|\.env\.example$/.test(file) || /^\s*(?:\/\*|\*|\/\/|--|#)/.test(line);

const ROOT = path.resolve(import.meta.dirname, "../../..");
const PLACES = [
  "src",
  "test",
  "docs",
  "assets",
  "migrations",
  "config",
  "README.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  ".env.example",
];

function listFiles(place: string): string[] {
  const absolute = path.join(ROOT, place);
  if (statSync(absolute).isFile()) return [place];
  return readdirSync(absolute, { recursive: true, encoding: "utf8" })
    .filter((file) => /\.(?:ts|md|sql|yml|json)$/.test(file))
    .map((file) => path.join(place, file));
}

it("documents and comments use plain English", () => {
  const found = PLACES.flatMap(listFiles).flatMap((file) =>
    readFileSync(path.join(ROOT, file), "utf8")
      .split("\n")
      .flatMap((line, index) =>
        FOREIGN.flatMap(([phrase, instead]) => {
          const match = isProse(file, line) ? phrase.exec(line) : null;
          return match === null ? [] : [`${file}:${index + 1}: "${match[0]}": write ${instead}`];
        }),
      ),
  );
  expect(found).toEqual([]);
});

it("no retired word is left", () => {
  // This file names them.
  const files = PLACES.flatMap(listFiles).filter((file) => path.join(ROOT, file) !== import.meta.filename);
  expect(files.length).toBeGreaterThan(300);
  const found = files.flatMap((file) =>
    `${file}\n${readFileSync(path.join(ROOT, file), "utf8")}`.split("\n").flatMap((line, number) =>
      RETIRED.flatMap(([word, instead]) => {
        const match = word.exec(line);
        return match === null ? [] : [`${file}:${number}: "${match[0]}": write ${instead}`];
      }),
    ),
  );
  expect(found).toEqual([]);
});
