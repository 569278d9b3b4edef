import { formatSpan } from "./terminal.ts";

const BAR_CELLS = 24;
const LINE_EVERY_MS = 10_000;

export interface Progress {
  /** 0 to 1. */
  readonly share: number;
  readonly elapsedMs: number;
  /** What is done, such as 600 `orders`. */
  readonly count: number;
  readonly unit: string;
}

/** `[######------]  50 %  600 orders  90 orders/s  about 3 min left`; without the bar if not on a terminal. @internal */
export function describeProgress(
  { share, elapsedMs, count, unit }: Progress,
  { bar }: { bar: boolean },
): string {
  const filled = Math.round(share * BAR_CELLS);
  const percent = `${Math.floor(share * 100)} %`.padStart(5);
  const left = share > 0 ? `about ${formatSpan((elapsedMs * (1 - share)) / share)} left` : "";
  const cells = bar ? [`[${"#".repeat(filled)}${"-".repeat(BAR_CELLS - filled)}]`] : [];
  const rate = elapsedMs > 0 ? `${Math.round((count * 1_000) / elapsedMs)} ${unit}/s` : "";
  return [...cells, percent, `${count} ${unit}`, rate, left].join("  ").trimEnd();
}

export interface ProgressLine {
  show(progress: Progress): void;
  /** Moves the terminal to a new line. */
  end(): void;
}

/** Progress on stderr: on a terminal, one line that is overwritten; elsewhere, one line every ten seconds. */
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
