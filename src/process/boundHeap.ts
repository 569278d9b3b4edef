import { setFlagsFromString } from "node:v8";

const GROWING_PERCENT = 25;

/**
 * From now on V8 collects garbage when the heap reaches 1.25 times the live size after the last collection. By default
 * it lets the heap grow to several times that size while the machine has memory, and a flood of requests makes it do
 * so.
 *
 * The bound grows with the live size, so that no process ends for lack of memory, as it would with
 * `--max-old-space-size`. It applies no matter how the process was started.
 */
export function boundHeap(): void {
  setFlagsFromString(`--heap-growing-percent=${GROWING_PERCENT}`);
}
