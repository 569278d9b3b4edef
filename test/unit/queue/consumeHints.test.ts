import { expect, it } from "vitest";
import { startHintConsumer } from "../../../src/queue/hints/consumeHints.ts";
import type { Hint } from "../../../src/queue/hints/hints.ts";

function setUp() {
  const taken: { hint: Hint; end: (error?: Error) => void }[] = [];
  let give: (hint: Hint) => void = () => undefined;
  let listening = true;
  const consumer = startHintConsumer({
    hints: {
      listen(onHint) {
        give = onHint;
        return { close: async () => void (listening = false) };
      },
    },
    apply: (hint) =>
      new Promise((resolve, reject) => {
        taken.push({ hint, end: (error) => (error === undefined ? resolve() : reject(error)) });
      }),
  });
  return { consumer, taken, give: (hint: Hint) => give(hint), isListening: () => listening };
}

const seqs = (count: number) => ({ seqs: Array.from({ length: count }, (_, at) => at + 1) });
const settle = () => new Promise((resolve) => setImmediate(resolve));

it("processes hints concurrently up to 2,000 events, and continues when some are decided", async () => {
  const { taken, give } = setUp();
  for (let time = 0; time < 12; time += 1) give(seqs(200));
  expect(taken).toHaveLength(10);
  taken[0]?.end();
  await settle();
  give(seqs(200));
  give(seqs(1));
  expect(taken).toHaveLength(11);
});

it("leaves a failed hint to its job, and continues", async () => {
  const { taken, give } = setUp();
  for (let time = 0; time < 10; time += 1) give(seqs(200));
  taken[0]?.end(new Error("away"));
  await settle();
  give(seqs(3));
  expect(taken).toHaveLength(11);
});

it("takes no more hints while closing, and waits for running ones", async () => {
  const { consumer, taken, give, isListening } = setUp();
  give(seqs(1));
  let isClosed = false;
  const closing = consumer.close().then(() => void (isClosed = true));
  await settle();
  expect({ listening: isListening(), isClosed }).toEqual({ listening: false, isClosed: false });
  taken[0]?.end();
  await closing;
});
