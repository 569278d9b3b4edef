import { expect, it } from "vitest";
import { noteFigures, seed } from "../support/faults/extent.ts";
import { startFaultWorld } from "../support/faults/faultWorld.ts";
import { at, makeEventBody } from "../support/mirror/orders.ts";
import { makeRandom, shuffle } from "../support/faults/random.ts";
import { sendEvent } from "../support/signing/signing.ts";

const EVENTS = 50_000;
const ORDERS = 2_000;
const DUPLICATES = 0.3;
/** Events of one order. */
const HOT = 0.2;
const SENDERS = 48;

const world = await startFaultWorld();

it("50,000 shuffled events, 30 % of them twice, a fifth of one order, produce the mirror of a sorted replay (row 20)", async () => {
  await world.start("web");
  await Promise.all([world.start("worker"), world.start("worker")]);
  const random = makeRandom(seed);
  const newest = new Map<string, number>();
  const deliveries: { id: string; reference: string; version: number }[] = [];
  for (let version = 1; version <= EVENTS; version += 1) {
    const reference = random() < HOT ? "R0" : `R${1 + Math.floor(random() * ORDERS)}`;
    newest.set(reference, version);
    const delivery = { id: `evt_${version}`, reference, version };
    deliveries.push(delivery);
    if (random() < DUPLICATES) deliveries.push(delivery);
  }
  shuffle(deliveries, random);
  const acknowledged = new Set<string>();
  const startedMs = performance.now();
  let place = 0;
  await Promise.all(
    Array.from({ length: SENDERS }, async () => {
      for (let next = deliveries[(place += 1) - 1]; next; next = deliveries[(place += 1) - 1]) {
        const { id, reference, version } = next;
        const body = makeEventBody({ id, order: { reference, updatedAt: at(version / 1_000) } });
        // Refused under overload; a provider sends it again.
        while ((await sendEvent(world.webhookUrl, { id, body })) !== 200);
        acknowledged.add(id);
      }
    }),
  );
  const seconds = Math.round((performance.now() - startedMs) / 1_000);
  await world.audit.expectDecided(acknowledged);
  const { rows } = await world.audit.pool.query<{ reference: string; updated: string }>(
    "select reference, raw ->> 'updatedAt' as updated from mirror.orders",
  );
  expect(new Map(rows.map(({ reference, updated }) => [reference, updated]))).toEqual(
    new Map([...newest].map(([reference, version]) => [reference, at(version / 1_000)])),
  );
  noteFigures("20", { deliveries: deliveries.length, events: acknowledged.size, seconds, lost: 0 });
});
