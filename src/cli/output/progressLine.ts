import { formatSpan } from "./terminal.ts";

const BAR_CELLS = 24;
const LINE_EVERY_MS = 10_000;

export interface Progress {
  /** 0 to 1. */
  readonly share: number;
  readonly elapsedMs: number;
  /** Such as `1,200 orders`. */
  readonly done: string;
  /** Such as `90 orders/s`. */
  readonly rate: string;
}

/** `[######------]  50 %  600 orders  90 orders/s  about 3 min left`, without the bar off a terminal. @internal */
export function describeProgress(
  { share, elapsedMs, done, rate }: Progress,
  { bar }: { bar: boolean },
): string {
  const filled = Math.round(share * BAR_CELLS);
  const percent = `${Math.floor(share * 100)} %`.padStart(5);
  const left = share > 0 ? `about ${formatSpan((elapsedMs * (1 - share)) / share)} left` : "";
  const cells = bar ? [`[${"#".repeat(filled)}${"-".repeat(BAR_CELLS - filled)}]`] : [];
  return [...cells, percent, done, rate, left].join("  ").trimEnd();
}

export interface ProgressLine {
  show(progress: Progress): void;
  /** Leaves the terminal on a line of its own. */
  end(): void;
}

/** Progress on stderr: one line that is written over on a terminal, a line every ten seconds elsewhere. */
export function makeProgressLine(
  stream: { isTTY?: boolean; write: (text: string) => unknown },
  nowMs: () => number,
): ProgressLine {
  const bar = stream.isTTY === true;
  let shownMs = Number.NEGATIVE_INFINITY;
  let open = false;
  return {
    show(progress) {
      const text = describeProgress(progress, { bar });
      if (bar) {
        stream.write(`\r\u001b[2K${text}`);
        open = true;
      } else if (nowMs() - shownMs >= LINE_EVERY_MS) {
        stream.write(`${text}\n`);
        shownMs = nowMs();
      }
    },
    end() {
      if (open) stream.write("\n");
      open = false;
    },
  };
}
