/** Does through the sandbox's control interface what the dashboard and the fleet do at a real provider. */
export interface SandboxControl {
  setPlan(organization: Organization, plan: "none" | "standard" | "advanced"): Promise<void>;
  setSubscription(organization: Organization, subscription: Subscription): Promise<void>;
  closeBranch(branch: string, closed: boolean): Promise<void>;
  /** Takes the coordinates from the branch's main address; there is no way back. */
  unlocateBranch(branch: string): Promise<void>;
  deactivatePrimary(branch: string): Promise<void>;
  connectPrimary(branch: string, zoneCode: string): Promise<void>;
  /** The next step of an order in its life. Rejects when there is none. */
  moveByFleet(reference: string): Promise<void>;
  /** Rejects when the fleet may not. */
  cancelByFleet(reference: string): Promise<void>;
  figures(organization: Organization): Promise<Figures>;
  /** Moves the clock of a sandbox whose time is virtual. */
  passTime(ms: number): Promise<void>;
  /** Resolves when every event has been sent, or has found no endpoint. */
  settleEvents(): Promise<void>;
  addWebhook(endpoint: {
    organization: Organization;
    mode: "live" | "test";
    url: string;
    secret: string;
    /** A different name creates another endpoint. */
    name?: string;
  }): Promise<void>;
}

export type Organization = "sandbox" | "other" | "standard";
export type Subscription = "active" | "past_due" | "unpaid" | "canceled";

export interface Figures {
  readonly orders: number;
  readonly charges: number;
  readonly searches: number;
}

export function makeSandboxControl(baseUrl: string): SandboxControl {
  async function ask(method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
    const response = await fetch(`${baseUrl}/_sandbox${path}`, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      headers: { "content-type": "application/json" },
    });
    const answer = (await response.json()) as Record<string, unknown>;
    if (!response.ok)
      throw new Error(`${method} /_sandbox${path}: ${response.status} ${JSON.stringify(answer)}`);
    return answer;
  }
  const post = async (path: string, body: unknown = {}): Promise<void> =>
    void (await ask("POST", path, body));
  return {
    setPlan: (organization, plan) => post(`/organizations/${organization}`, { plan }),
    setSubscription: (organization, subscription) => post(`/organizations/${organization}`, { subscription }),
    closeBranch: (branch, closed) => post(`/branches/${branch}`, { closed }),
    unlocateBranch: (branch) => post(`/branches/${branch}`, { located: false }),
    deactivatePrimary: (branch) => post(`/branches/${branch}`, { primary: null }),
    connectPrimary: (branch, zoneCode) => post(`/branches/${branch}`, { primary: zoneCode }),
    moveByFleet: (reference) => post(`/orders/${reference}/step`),
    cancelByFleet: (reference) => post(`/orders/${reference}/cancel`),
    async figures(organization) {
      const { organizations } = await ask("GET", "/state");
      const found = (organizations as (Figures & { organizationId: string })[]).find(
        ({ organizationId }) => organizationId === organization,
      );
      if (found === undefined) throw new TypeError(`there is no organization ${organization}`);
      return found;
    },
    passTime: (ms) => post("/clock", { advanceMs: ms }),
    settleEvents: () => post("/idle"),
    addWebhook: (endpoint) => post("/webhooks", endpoint),
  };
}
