import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { OrderState } from "../../../src/domain/order/order.ts";
import { readStates } from "../../../src/certificates/readStates.ts";

/** The states of a file with this content. */
export async function statesOf(content: string | Uint8Array): Promise<readonly OrderState[]> {
  const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-states-"));
  try {
    const file = path.join(folder, "states");
    await writeFile(file, content);
    return (await readStates(file)).states;
  } finally {
    await rm(folder, { recursive: true });
  }
}
