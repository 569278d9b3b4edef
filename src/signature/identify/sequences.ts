import type { Atom, BodyAtom } from "./atoms.ts";

/** A text that a sender may have signed: what precedes and follows the body, and the template of both. */
export interface Sequence {
  readonly before: string;
  /** False when the text contains only a hash of the body. */
  readonly hasBody: boolean;
  readonly after: string;
  readonly atoms: readonly Atom[];
  readonly template: string;
}

const JOINERS = [".", ":", "", ...Array.from("\n,|-_; &/+#~"), "\r\n", "||", "::", "--"];
/** With more atoms between body and joiner the number of ways multiplies, so only the likelier ones are tried. */
const ATOMS_MAX = [Infinity, Infinity, 20, 10];
const LONG_ATOMS_MAX = 6;
const LONG_JOINERS = ["\n", ".", ":", "", "|", ","];

/** Every order of up to three atoms around a body, and of four or five of the likeliest before it; the cheapest first. */
export function* listSequences(atoms: readonly Atom[], bodies: readonly BodyAtom[]): Generator<Sequence> {
  const raw = bodies.filter(({ text }) => text === null);
  const hashed = bodies.filter(({ text }) => text !== null);
  const around = function* (count: number, some: readonly BodyAtom[], joiners: readonly string[]) {
    for (const chosen of permutations(atoms.slice(0, ATOMS_MAX[count]), count))
      yield* place(chosen, some, joiners);
  };
  // Single values come first, and times first among them: of a dated and an undated signature, the dated one is better.
  yield* around(1, raw, JOINERS);
  yield* around(0, bodies, JOINERS);
  yield* around(2, raw, JOINERS);
  yield* around(1, hashed, JOINERS);
  yield* around(3, raw, JOINERS);
  yield* around(2, hashed, LONG_JOINERS);
  yield* around(3, hashed, LONG_JOINERS);
  const likely = atoms.filter(({ rank }) => rank <= 4).slice(0, LONG_ATOMS_MAX);
  for (const count of [4, 5]) {
    for (const chosen of permutations(likely, count)) {
      for (const body of bodies)
        for (const joiner of LONG_JOINERS) yield join(chosen, body, { at: count, joiner });
    }
  }
}

function* place(
  atoms: readonly Atom[],
  bodies: readonly BodyAtom[],
  joiners: readonly string[],
): Generator<Sequence> {
  for (const body of bodies) {
    for (let at = atoms.length; at >= 0; at -= 1) {
      for (const joiner of atoms.length === 0 ? [""] : joiners) yield join(atoms, body, { at, joiner });
      // Lines of text, each with a line ending.
      if (at === atoms.length) yield join(atoms, body, { at, joiner: "\n", end: "\n" });
    }
  }
}

function join(
  atoms: readonly Atom[],
  body: BodyAtom,
  { at, joiner, end = "" }: { at: number; joiner: string; end?: string },
): Sequence {
  const before = atoms.slice(0, at);
  const behind = atoms.slice(at);
  const texts = (side: readonly Atom[]) => side.map(({ text }) => text);
  const head = before.length === 0 ? "" : texts(before).join(joiner) + joiner;
  const tail = (behind.length === 0 ? "" : joiner + texts(behind).join(joiner)) + end;
  const tokens = [...before.map(tokenOf), body.token, ...behind.map(tokenOf)];
  return {
    before: body.text === null ? head : head + body.text + tail,
    hasBody: body.text === null,
    after: body.text === null ? tail : "",
    atoms,
    template: tokens.join(joiner) + end,
  };
}

/** The first time is the time of signing, and the first id is the event's; further ones are ordinary values. */
function tokenOf(atom: Atom, index: number, side: readonly Atom[]): string {
  const isFirst = side.findIndex(({ kind }) => kind === atom.kind) === index;
  if (atom.kind === "time" && isFirst) return "{timestamp}";
  return atom.kind === "id" && isFirst ? "{id}" : atom.token;
}

function* permutations(atoms: readonly Atom[], count: number): Generator<readonly Atom[]> {
  if (count === 0) {
    yield [];
    return;
  }
  for (const rest of permutations(atoms, count - 1)) {
    for (const atom of atoms) {
      if (!rest.includes(atom) && fits(atom, rest)) yield [...rest, atom];
    }
  }
}

/** A field is split in one way only, and a place gives one value. */
function fits({ layout }: Atom, others: readonly Atom[]): boolean {
  return (
    layout === undefined || others.every((other) => other.layout === undefined || other.layout === layout)
  );
}
