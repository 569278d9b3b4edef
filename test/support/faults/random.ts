/** mulberry32: small, seeded, good enough to choose orders and faults with. From 0, inclusive, to 1, exclusive. */
export function makeRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Shuffles the elements in place (Fisher-Yates). */
export function shuffle(elements: unknown[], random: () => number): void {
  for (let last = elements.length - 1; last > 0; last -= 1) {
    const other = Math.floor(random() * (last + 1));
    [elements[last], elements[other]] = [elements[other], elements[last]];
  }
}
