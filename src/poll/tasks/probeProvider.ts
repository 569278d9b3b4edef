import { NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { compareTies, showsTies } from "../../domain/window/providerBehaviour.ts";
import type { Behaviour } from "../../domain/window/providerBehaviour.ts";
import type { WalkRequest } from "../../domain/window/walk.ts";
import type { PollDeps } from "../cycle/deps.ts";
import type { AwaitTurn } from "../cycle/pace.ts";
import { toRow } from "../cycle/readWindow.ts";
import type { ShownPage, ShownRow } from "../cycle/readWindow.ts";

/** Asks a provider what no page shows by itself: the sense of the bounds, and the order of equal timestamps. */
export interface Probes {
  /** Takes from a page what a probe can go by. */
  showPage(page: ShownPage): void;
  /** Makes one probe, if one is due and possible. What contradicts `known` is asked for again soon. */
  runNext(known: Behaviour, signal: AbortSignal): Promise<Behaviour>;
}

/** Three list reads a day, of the lowest priority. */
const EVERY_MS = 86_400_000;
/** After a probe that failed or surprised. */
const AGAIN_MS = 600_000;
/** Rows of the provider's last minutes may still change, and would then be missed for another reason. */
const SAMPLE_AGE_NANOS = 120n * NANOS_PER_SECOND;
/** A limit that no provider lowers. */
const PROBE_LIMIT = 50;

const PROBES = ["ties", "since", "until"] as const;
type Probe = (typeof PROBES)[number];

export function makeProbes(deps: Pick<PollDeps, "client" | "clock">, awaitTurn: AwaitTurn): Probes {
  const { client, clock } = deps;
  const dueMs = new Map<Probe, number>();
  let tied: { readonly request: WalkRequest; readonly rows: readonly ShownRow[] } | undefined;
  let order: { readonly reference: string; readonly version: Instant } | undefined;

  function showPage({ request, requestedAt, rows }: ShownPage): void {
    if (showsTies(rows)) tied = { request, rows };
    for (const { reference, version } of rows) {
      if (reference === undefined || version === undefined) continue;
      if (version < requestedAt - SAMPLE_AGE_NANOS) order = { reference, version };
    }
  }

  async function runNext(known: Behaviour, signal: AbortSignal): Promise<Behaviour> {
    const nowMs = clock.monotonicMs();
    const isPossible = (probe: Probe) => (probe === "ties" ? tied : order) !== undefined;
    const probe = PROBES.find((each) => (dueMs.get(each) ?? 0) <= nowMs && isPossible(each));
    if (probe === undefined) return {};
    dueMs.set(probe, nowMs + AGAIN_MS);
    const behaviour = probe === "ties" ? await probeTies(signal) : await probeBound(probe, signal);
    const value = behaviour[probe];
    if (value !== undefined && (known[probe] ?? value) === value) dueMs.set(probe, nowMs + EVERY_MS);
    return behaviour;
  }

  async function probeTies(signal: AbortSignal): Promise<Behaviour> {
    return tied === undefined ? {} : compareTies(tied.rows, await list(tied.request, signal));
  }

  /** Asks for a period that touches an order's timestamp with one bound only. */
  async function probeBound(bound: "since" | "until", signal: AbortSignal): Promise<Behaviour> {
    if (order === undefined) return {};
    const { reference, version } = order;
    const period =
      bound === "since"
        ? { since: version, until: version + NANOS_PER_SECOND }
        : { since: version - NANOS_PER_SECOND, until: version };
    const rows = await list({ ...period, limit: PROBE_LIMIT, offset: 0 }, signal);
    if (rows.some((row) => row.reference === reference && row.version === version)) {
      return { [bound]: "inclusive" };
    }
    // A full page may hide it, and an order that has changed meanwhile is in no such period.
    if (rows.length >= PROBE_LIMIT) return {};
    const { snapshot } = await client.getOrder(reference, { priority: "verify", signal });
    return snapshot.version === version ? { [bound]: "exclusive" } : {};
  }

  async function list(request: WalkRequest, signal: AbortSignal): Promise<ShownRow[]> {
    await awaitTurn(signal);
    const page = await client.listWindow(request, { priority: "verify", signal });
    return page.elements.map(toRow);
  }

  return { showPage, runNext };
}
