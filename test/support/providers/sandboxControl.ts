export type Organization = "sandbox" | "other" | "standard";
export type Subscription = "active" | "past_due" | "unpaid" | "canceled";

export interface Figures {
  readonly orders: number;
  readonly charges: number;
  readonly searches: number;
}

export type SandboxControl = ReturnType<typeof makeSandboxControl>;

/** Does through the sandbox's control interface what the dashboard and the fleet do at a real provider. */
export function makeSandboxControl(baseUrl: string) {
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
    setPlan: (organization: Organization, plan: "none" | "standard" | "advanced") =>
      post(`/organizations/${organization}`, { plan }),
    setSubscription: (organization: Organization, subscription: Subscription) =>
      post(`/organizations/${organization}`, { subscription }),
    /** Takes the coordinates from the branch's main address. */
    unlocateBranch: (branch: string) => post(`/branches/${branch}`, { located: false }),
    deactivatePrimary: (branch: string) => post(`/branches/${branch}`, { primary: null }),
    connectPrimary: (branch: string, zoneCode: string) => post(`/branches/${branch}`, { primary: zoneCode }),
    /** The next step of an order in its life. Rejects when there is none. */
    moveByFleet: (reference: string) => post(`/orders/${reference}/step`),
    /** Rejects when the fleet may not. */
    cancelByFleet: (reference: string) => post(`/orders/${reference}/cancel`),
    async figures(organization: Organization) {
      const { organizations } = await ask("GET", "/state");
      const found = (organizations as (Figures & { organizationId: string })[]).find(
        ({ organizationId }) => organizationId === organization,
      );
      if (found === undefined) throw new TypeError(`there is no organization ${organization}`);
      return found;
    },
    /** Moves the clock of a sandbox whose time is virtual. */
    passTime: (ms: number) => post("/clock", { advanceMs: ms }),
    /** Resolves when every event has been sent, or has found no endpoint. */
    settleEvents: () => post("/idle"),
    addWebhook: (endpoint: {
      organization: Organization;
      mode: "live" | "test";
      url: string;
      secret: string;
      /** A different name creates another endpoint. */
      name?: string;
    }) => post("/webhooks", endpoint),
  };
}
