import { setFlagsFromString } from "node:v8";

const GROWING_PERCENT = 50;

/**
 * From now on V8 collects garbage when the heap is half as large again as what was alive at the last collection. By itself it
 * lets the heap grow to several times that while the machine has memory, and a flood of requests makes it do so.
 *
 * The bound grows with what is alive, so that nothing ends for lack of memory, as with `--max-old-space-size`; and it holds
 * however the process was started.
 */
export function boundHeap(): void {
  setFlagsFromString(`--heap-growing-percent=${GROWING_PERCENT}`);
}
