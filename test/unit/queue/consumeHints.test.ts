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

it("takes up hints while the one before is under way, until 2,000 events are, and goes on when some are decided", async () => {
  const { taken, give } = setUp();
  for (let time = 0; time < 12; time += 1) give(seqs(200));
  expect(taken).toHaveLength(10);
  taken[0]?.end();
  await settle();
  give(seqs(200));
  give(seqs(1));
  expect(taken).toHaveLength(11);
});

it("leaves a hint that fails to its job, and goes on", async () => {
  const { taken, give } = setUp();
  for (let time = 0; time < 10; time += 1) give(seqs(200));
  taken[0]?.end(new Error("away"));
  await settle();
  give(seqs(3));
  expect(taken).toHaveLength(11);
});

it("hears nothing more at its close, and waits for what is under way", async () => {
  const { consumer, taken, give, isListening } = setUp();
  give(seqs(1));
  let isClosed = false;
  const closing = consumer.close().then(() => void (isClosed = true));
  await settle();
  expect({ listening: isListening(), isClosed }).toEqual({ listening: false, isClosed: false });
  taken[0]?.end();
  await closing;
});
