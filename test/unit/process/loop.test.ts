import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makeLoop, type LoopOptions } from "../../../src/process/loop.ts";
import { makeSimulatedClock } from "../../support/virtual/simulatedClock.ts";

/** Lets everything continue that needs no timer. */
const calm = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A loop whose runs last until the test ends them. */
function makeScene(options: Partial<LoopOptions> = {}) {
  const simulated = makeSimulatedClock();
  const sleeps: number[] = [];
  const sleep = (ms: number, signal?: AbortSignal) => {
    sleeps.push(ms);
    return simulated.sleep(ms, signal).finally(() => sleeps.splice(sleeps.indexOf(ms), 1));
  };
  const pass = (ms: number) => simulated.runUntil(simulated.monotonicMs() + ms);
  const under: { end: (pauseMs?: number) => void; fail: () => void; signal: AbortSignal }[] = [];
  const scene = { begun: 0, most: 0, errors: [] as number[] };
  const loop = makeLoop({
    run: (signal) =>
      new Promise<number | void>((resolve, reject) => {
        const leave = () => under.splice(under.indexOf(one), 1);
        const one = {
          signal,
          end: (pauseMs?: number) => (leave(), resolve(pauseMs)),
          fail: () => (leave(), reject(new Error("failed"))),
        };
        under.push(one);
        scene.begun += 1;
        scene.most = Math.max(scene.most, under.length);
      }),
    everyMs: 100,
    onError: (_error, failures) => scene.errors.push(failures),
    clock: { ...simulated, sleep },
    ...options,
  });
  return { loop, scene, under, pass, sleeps };
}

type Step = "start" | "stop" | "wake" | "end" | "fail" | "pass";
const STEPS: readonly Step[] = ["start", "stop", "wake", "end", "fail", "pass"];

async function afterTurns(turns: number, ended: Promise<unknown>): Promise<void> {
  await ended;
  for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
}

describe("a loop", () => {
  it("loses no wake between the end of a run and its endless pause", async () => {
    for (let turns = 0; turns < 10; turns += 1) {
      let ran = 0;
      const loop = makeLoop({
        run() {
          const ended = Promise.resolve(Infinity);
          ran += 1;
          void afterTurns(turns, ended).then(() => {
            if (ran === 1) loop.wake();
          });
          return ended;
        },
        everyMs: Infinity,
        onError: () => undefined,
        clock: makeSimulatedClock(),
      });
      loop.start();
      await calm();
      expect(ran, `woken ${turns} turns after the run`).toBe(2);
      await loop.stop();
    }
  });

  it("never runs concurrently or after its stop, which waits for the run under way, in any sequence of calls and failures", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.constantFrom(...STEPS), { maxLength: 40 }), async (steps) => {
        const { loop, scene, under, pass, sleeps } = makeScene();
        let begunAtStop: number | undefined;
        let expected = 0;
        let started = false;
        const stops: Promise<void>[] = [];
        /** The runs after each pause, and after any call following the stop. */
        const passed: number[] = [];
        const afterStop = new Set([0]);
        for (const step of steps) {
          const asleep = sleeps.length > 0;
          const paused = asleep && started && begunAtStop === undefined;
          const before = scene.begun;
          if (step === "start") loop.start();
          else if (step === "wake") loop.wake();
          else if (step === "end") under[0]?.end();
          else if (step === "fail") under[0]?.fail();
          else if (step === "pass") await pass(100);
          else {
            begunAtStop ??= scene.begun;
            stops.push(loop.stop());
          }
          if (step === "start") started = true;
          await calm();
          if (step === "pass" && paused) passed.push(scene.begun - before);
          if (begunAtStop !== undefined) afterStop.add(scene.begun - begunAtStop);
          expected = Math.max(expected, scene.begun);
        }
        expect(scene.most).toBeLessThanOrEqual(1);
        expect(passed.every((runs) => runs === 1)).toBe(true);
        expect([...afterStop]).toEqual([0]);
        let stopped = false;
        const ended = Promise.all([...stops, loop.stop()]).then(() => (stopped = true));
        await calm();
        expect(under.every(({ signal }) => signal.aborted)).toBe(true);
        expect(stopped).toBe(under.length === 0);
        under[0]?.fail();
        await ended;
        expect(sleeps).toEqual([]);
        expect(scene.begun).toBe(expected);
      }),
      { numRuns: 300 },
    );
  });

  it("doubles its pause with each error up to a limit, and resets it after a success", async () => {
    const { loop, scene, under, pass, sleeps } = makeScene({ backoff: { minMs: 10, maxMs: 35 } });
    loop.start();
    const pauses: number[] = [];
    for (const failing of [true, true, true, true, false, true]) {
      if (failing) under[0]?.fail();
      else under[0]?.end();
      await calm();
      pauses.push(...sleeps);
      await pass(100);
    }
    expect(pauses).toEqual([10, 20, 35, 35, 100, 10]);
    expect(scene.errors).toEqual([1, 2, 3, 4, 1]);
  });

  it("pauses first if configured to, wakes from a pause, and after a wake during a run, but not from the pause after an error", async () => {
    const { loop, scene, under, sleeps, pass } = makeScene({ pausesFirst: true });
    loop.start();
    await calm();
    expect(scene.begun).toBe(0);
    await pass(100);
    await calm();
    under[0]?.end(Infinity);
    await calm();
    expect([scene.begun, sleeps]).toEqual([1, []]);
    loop.wake();
    await calm();
    expect(scene.begun).toBe(2);
    loop.wake();
    under[0]?.end();
    await calm();
    expect(scene.begun).toBe(3);
    under[0]?.fail();
    await calm();
    loop.wake();
    await calm();
    expect([scene.begun, sleeps]).toEqual([3, [100]]);
  });
});
