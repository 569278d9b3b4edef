import { createHash } from "node:crypto";
import type { OrderState } from "../domain/order/order.ts";

const LANES = 1_024;
const LANE_BYTES = 2;
const TAG = "order-mirror state v1";

/** A hash of a set that does not depend on the order of its elements, and follows additions and removals. */
export interface MultisetHash {
  add(state: OrderState): void;
  remove(state: OrderState): void;
  /** SHA-256 of the sum, in hexadecimal. */
  digest(): string;
}

/**
 * LtHash with 1,024 lanes of 16 bits: each state becomes 2,048 bytes of SHAKE256, which are added lane by lane modulo
 * 2^16. Two different sets with the same sum are as hard to find as a short vector in a lattice (over 200 bits of
 * security), as long as no state occurs 2^16 times; the states of a certificate occur once.
 */
export function makeMultisetHash(sourceId: string): MultisetHash {
  const sum = new Uint16Array(LANES);
  function move(state: OrderState, sign: 1 | -1): void {
    const lanes = expand(sourceId, state);
    for (let lane = 0; lane < LANES; lane += 1) {
      // The typed array reduces modulo 2^16.
      sum[lane] = (sum[lane] ?? 0) + sign * lanes.readUInt16LE(lane * LANE_BYTES);
    }
  }
  return {
    add: (state) => move(state, 1),
    remove: (state) => move(state, -1),
    digest() {
      const bytes = Buffer.alloc(LANES * LANE_BYTES);
      for (const [lane, value] of sum.entries()) bytes.writeUInt16LE(value, lane * LANE_BYTES);
      return createHash("sha256").update(bytes).digest("hex");
    },
  };
}

/** Each part is preceded by its length in bytes, so that no two states have the same text. */
function expand(sourceId: string, { reference, version, hash }: OrderState): Buffer {
  const shake = createHash("shake256", { outputLength: LANES * LANE_BYTES });
  for (const part of [TAG, sourceId, reference, String(version), hash]) {
    const bytes = Buffer.from(part);
    const length = Buffer.alloc(4);
    length.writeUInt32BE(bytes.length);
    shake.update(length).update(bytes);
  }
  return shake.digest();
}
