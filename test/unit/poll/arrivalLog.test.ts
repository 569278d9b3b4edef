import { expect, it } from "vitest";
import { addSeconds } from "../../../src/domain/order/instant.ts";
import { ArrivalLog } from "../../../src/poll/behaviour/arrivalLog.ts";

const T0 = 1_790_000_000n * 1_000_000_000n;
const at = (seconds: number) => addSeconds(T0, seconds);
const row = (reference: string, seconds: number) => ({ key: reference, reference, version: at(seconds) });

/** A log, and complete reads of windows for it: their time, window and rows. */
function makeSut() {
  const log = new ArrivalLog();
  const read = (atSeconds: number, [since, until]: [number, number], rows: ReturnType<typeof row>[]) => {
    log.showPage({ requestedAt: at(atSeconds), rows });
    log.showWindow({ window: { since: at(since), until: at(until) }, begunAt: at(atSeconds) });
  };
  return { log, read };
}

it("counts a change as late when an earlier read of its window did not show it", () => {
  const { log, read } = makeSut();
  read(100, [30, 95], [row("R1", 50)]);
  read(130, [35, 125], [row("R1", 50), row("R2", 93), row("R3", 110)]);
  expect(log.take()).toEqual([
    { missedSeconds: 7, seenSeconds: 45, changes: 1 },
    { missedSeconds: 0, seenSeconds: 20, changes: 1 },
  ]);
  expect(log.take()).toEqual([]);
});

it("takes the last of several reads that missed a change", () => {
  const { log, read } = makeSut();
  read(100, [30, 95], []);
  read(130, [35, 125], []);
  read(160, [65, 155], [row("R1", 90)]);
  expect(log.take()).toEqual([{ missedSeconds: 45, seenSeconds: 90, changes: 1 }]);
});

it("does not judge changes that no earlier read of its own covered, or of another time", () => {
  const { log, read } = makeSut();
  log.showPage({ requestedAt: at(100), rows: [row("R1", 50)] });
  read(130, [60, 125], []);
  log.showPage({ requestedAt: at(131), rows: [row("R2", 50), row("R3", -22_000)] });
  expect(log.take()).toEqual([]);
});

it("treats a second state of an order as another change, and a repeated state as the same", () => {
  const { log, read } = makeSut();
  read(100, [30, 95], [row("R1", 50)]);
  read(130, [35, 125], [row("R1", 50)]);
  read(160, [65, 155], [row("R1", 130)]);
  expect(log.take()).toEqual([{ missedSeconds: 0, seenSeconds: 30, changes: 1 }]);
});

it("does not count a forgotten change as late", () => {
  const { log, read } = makeSut();
  const many = Array.from({ length: 100_001 }, (_, place) => row(`R${place}`, 50));
  read(99, [0, 40], []);
  log.showPage({ requestedAt: at(100), rows: many });
  // One read began before the log restarted, and ends after that.
  log.showWindow({ window: { since: at(30), until: at(95) }, begunAt: at(100) });
  log.showWindow({ window: { since: at(30), until: at(95) }, begunAt: at(100) });
  read(130, [35, 125], [row("R7", 50), row("R8", 110)]);
  read(160, [65, 155], [row("R8", 110), row("R9", 140)]);
  expect(log.take().filter(({ missedSeconds }) => missedSeconds > 0)).toEqual([]);
});

it("measures a list that is hours behind, however many changes there are", () => {
  const { log, read } = makeSut();
  read(100, [30, 95], []);
  read(5_500, [-100, 5_495], [row("R1", 50)]);
  expect(log.take()).toEqual([{ missedSeconds: 60, seenSeconds: 7_200, changes: 1 }]);
  // More than it remembers: it still tracks the newer half.
  for (let page = 0; page < 600; page += 1) {
    const rows = Array.from({ length: 200 }, (_, place) => row(`M${page}-${place}`, 5_500 + page));
    log.showPage({ requestedAt: at(6_200), rows });
  }
  log.showWindow({ window: { since: at(5_500), until: at(6_100) }, begunAt: at(6_200) });
  log.take();
  read(6_300, [5_500, 6_200], [row("LATE", 6_050), row("OLD", 5_510), row("M599-7", 6_099)]);
  expect(log.take()).toEqual([{ missedSeconds: 180, seenSeconds: 300, changes: 1 }]);
});
