import type { ApiAnswer } from "./apiRequest.ts";
import { chance } from "../world/chance.ts";
import { hitsEndpoint } from "../control/faults.ts";
import type { Faults } from "../control/faults.ts";

/** The effect of the current faults on one request. */
export interface RequestFaults {
  readonly latencyMs: number;
  readonly dropBefore: boolean;
  readonly dropAfter: boolean;
  readonly truncate: boolean;
  /** Replaces the endpoint's answer, after the checks of key and budget. */
  readonly forced: ApiAnswer | undefined;
}

/** Decides by the request's number, so that the same requests meet the same faults in every run. */
export function planRequestFaults(options: {
  faults: Faults;
  seed: number;
  requestNumber: number;
  endpoint: string;
}): RequestFaults {
  const { faults, seed, requestNumber, endpoint } = options;
  const spared = !hitsEndpoint(faults, endpoint);
  const draw = (fault: string) => chance(seed, fault, requestNumber);
  const isHit = (fault: string, share: number) => !spared && draw(fault) < share;
  return {
    latencyMs: spared ? 0 : faults.latencyMs + Math.floor(draw("jitter") * faults.latencyJitterMs),
    dropBefore: isHit("dropBefore", faults.dropBeforeShare),
    dropAfter: isHit("dropAfter", faults.dropAfterShare),
    truncate: isHit("truncate", faults.truncateShare),
    forced: forceAnswer(faults, isHit),
  };
}

function forceAnswer(
  faults: Faults,
  isHit: (fault: string, share: number) => boolean,
): ApiAnswer | undefined {
  if (isHit("refuse", faults.refuseShare)) {
    const message = 'Rate limit of the policy "sustained" exceeded (a storm of the sandbox).';
    return {
      status: 429,
      body: { error: { code: "rate_limit_exceeded", message } },
      headers: { "Retry-After": String(faults.refuseRetryAfterSeconds) },
    };
  }
  if (!isHit("fail", faults.failShare)) return undefined;
  return {
    status: faults.failStatus,
    body: { error: { code: "internal_error", message: "A fault of the sandbox." } },
  };
}
