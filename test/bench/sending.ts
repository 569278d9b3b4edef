/** The resolution of timers. Between two events at a slower pace there is one wake-up, not one per millisecond. */
const TICK_MS = 1;

/** Each connection sends its next request when it has its answer. */
export async function sendInTurn(
  count: number,
  connections: number,
  send: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const connection = async () => {
    while (next < count) await send(next++);
  };
  await Promise.all(Array.from({ length: connections }, connection));
}

/** Sends on schedule, independent of the answers. */
export async function sendAtPace(
  count: number,
  perSecond: number,
  send: (index: number) => Promise<void>,
): Promise<void> {
  const sent: Promise<void>[] = [];
  const startedMs = performance.now();
  while (sent.length < count) {
    const due = Math.min(count, Math.ceil(((performance.now() - startedMs) / 1_000) * perSecond));
    while (sent.length < due) sent.push(send(sent.length));
    const dueInMs = startedMs + (sent.length / perSecond) * 1_000 - performance.now();
    await new Promise((resolve) => setTimeout(resolve, Math.max(TICK_MS, dueInMs)));
  }
  await Promise.all(sent);
}
