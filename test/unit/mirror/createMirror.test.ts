import { readFileSync } from "node:fs";
import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import path from "node:path";
import { expect, it } from "vitest";
import { readOptions } from "../../../src/config/options.ts";
import { OPTION_NAMES } from "../../../src/config/settings.ts";
import { createMirror, type Mirror, type MirrorOptions } from "../../../src/mirror/createMirror.ts";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const LIVE = {
  sourceId: "live",
  mode: "live",
  baseUrl: "https://api.example.com",
  apiKey: "dos_live_key",
} as const;
const OPTIONS: MirrorOptions = { databaseUrl: "postgres://u:p@h/d", sources: [LIVE] };

it("takes options as values, with the defaults of the variables", () => {
  const config = readOptions({
    ...OPTIONS,
    sources: [{ ...LIVE, webhookSecrets: [SECRET] }],
    apiTokens: ["a-token-of-sixteen", "another-token-of-16@live"],
    alertWebhookUrl: "https://alerts.example.com",
    alertWebhookSecret: SECRET,
    outgoingWebhooks: [{ name: "shop", url: "https://shop.example.com", secret: SECRET, sources: ["live"] }],
    eventsKeptFor: "P90D",
  });
  const source = { ...LIVE, organization: "default", webhookScheme: "standard-webhooks" };
  expect(config).toMatchObject({
    databaseUrl: OPTIONS.databaseUrl,
    sources: [{ ...source, webhookSecrets: [SECRET] }],
    apiTokens: [{ token: "a-token-of-sixteen", sourceId: "live", mayWrite: false }, { sourceId: "live" }],
    alertWebhook: { url: "https://alerts.example.com", secret: SECRET },
    outgoingWebhooks: [{ endpointId: "shop", secrets: [SECRET], fields: "redacted" }],
    eventsKeptFor: "P90D",
    pollIntervalSeconds: 30,
    localTrust: false,
  });
});

/** Such as a client of Redis that is given instead of its address. */
const CIRCULAR: Record<string, unknown> = {};
CIRCULAR["self"] = CIRCULAR;

it.each<[unknown, RegExp]>([
  ...OPTION_NAMES.map((name): [unknown, RegExp] => [{ [name]: {} }, new RegExp(`^${name} must`)]),
  [{ apiTokens: ["a-token-of-sixteen,another-token"] }, /^apiTokens has a token \(number 1\) that is not/],
  [{ databaseUrl: undefined }, /^databaseUrl is missing\.$/],
  [{ databaseUrl: "mysql://u:hunter2@h/d" }, /^databaseUrl must look like postgres:\/\//],
  [{ sources: [] }, /^sources is empty\.$/],
  [{ sources: undefined }, /^sources must be a list\.$/],
  [
    { sources: [{ ...LIVE, webhookSecrets: [`whsec_${"c2VjcmV0".repeat(4)}`, "hunter2!"] }] },
    /^sources, source live, webhookSecrets is wrong: /,
  ],
  [{ sources: [{ ...LIVE, secret: "hunter2" }] }, /unknown fields: "secret"/],
  [{ alertWebhookUrl: "https://a.example.com" }, /^alertWebhookUrl is set without alertWebhookSecret/],
  [
    { pollIntervalSeconds: "30" },
    /^pollIntervalSeconds must be a number of seconds from 0\.1 to 3600, not "30"\.$/,
  ],
  [
    { outgoingWebhooks: [{ name: "x", url: "https://a.example.com", secret: SECRET, sources: ["shop"] }] },
    /^outgoingWebhooks, endpoint x, sources has shop, /,
  ],
  [{ pollIntervalSeconds: CIRCULAR }, /^pollIntervalSeconds must be a number of seconds .*, not "<ref/],
  [{ redisUrls: CIRCULAR }, /^redisUrls must look like redis:/],
  [{ logger: () => undefined }, /^logger must have the functions/],
  [{ logger: null }, /^logger must have the functions/],
  [{ databaseURL: "x" }, /^unknown option databaseURL; did you mean databaseUrl\?$/],
])(
  "a wrong option is refused with its name and what it must be, and no secret: %j",
  async (wrong, message) => {
    const refused: unknown = await createMirror({ ...OPTIONS, ...(wrong as object) }).catch(
      (error: unknown) => error,
    );
    expect(refused).toMatchObject({ name: "ConfigurationError", message: expect.stringMatching(message) });
    expect((refused as Error).message).not.toContain("hunter2");
  },
);

it("an unknown part is refused, so that no process lacks a worker in silence", async () => {
  const mirror = await createMirror(OPTIONS);
  await expect(mirror.start({ workers: true } as object)).rejects.toThrow(
    "unknown part workers; did you mean worker?",
  );
});

/** What each handler does with a request before the mirror has started. */
function askUnstarted(
  mirror: Mirror,
  asked: readonly (readonly ["webhooks" | "api" | "ops" | "probes", string, string?])[],
) {
  return asked.map(([handler, url, method = "GET"]) => {
    const request = new IncomingMessage(new Socket());
    Object.assign(request, { url, method });
    const response = new ServerResponse(request);
    let left = false;
    mirror[handler](request, response, () => (left = true));
    return `${url} ${left ? "left" : response.statusCode}`;
  });
}

it("answers 503 to its own paths until it has started, and leaves others, and those of parts that no option asks for", async () => {
  const mirror = await createMirror({
    ...OPTIONS,
    apiTokens: ["a-token-of-sixteen"],
    opsPassword: "a password of us",
  });
  const ours = [
    ["webhooks", "/webhooks/live", "POST"],
    ["api", "/v1/orders"],
    ["api", "/v1/orders/DO-1?x=1"],
    ["ops", "/ops"],
    ["ops", "/ops/orders"],
    ["probes", "/livez"],
    ["probes", "/docs/docs.js"],
  ] as const;
  expect(askUnstarted(mirror, ours)).toEqual(ours.map(([, url]) => `${url} 503`));
  const others = [
    ["webhooks", "/webhooks/stripe", "POST"],
    ["webhooks", "/shop"],
    ["api", "/v10"],
    ["api", "/v1"],
    ["api", "/v1/products"],
    ["api", "/docs"],
    ["ops", "/"],
    ["ops", "/opsx"],
    ["ops", "/livez"],
    ["probes", "/metrics"],
    ["probes", "/livezzz"],
    ["probes", "/livez", "POST"],
    ["probes", "/metrics-report"],
    ["probes", "/openapi.jsonx"],
  ] as const;
  expect(askUnstarted(mirror, others)).toEqual(others.map(([, url]) => `${url} left`));
  const bare = await createMirror(OPTIONS);
  expect(askUnstarted(bare, [ours[1], ours[3]])).toEqual(["/v1/orders left", "/ops left"]);
});

it("reads no environment, ends no process and installs no signal handler, in any file that it loads", () => {
  const source = path.resolve(import.meta.dirname, "../../../src");
  const found = new Set<string>();
  const visit = (file: string): void => {
    if (found.has(file)) return;
    found.add(file);
    const text = readFileSync(file, "utf8");
    for (const [statement, from] of text.matchAll(
      /(?:^|\n)(?:import|export)\s[^;]*?from "(\.[^"]+)"|\bimport\("(\.[^"]+)"\)/g,
    ))
      if (!/^\s*(?:import|export) type/.test(statement))
        visit(path.resolve(path.dirname(file), from ?? /"([^"]+)"/.exec(statement)?.[1] ?? ""));
  };
  visit(path.join(source, "mirror/createMirror.ts"));
  expect(found.size).toBeGreaterThan(100);
  const guilty = [...found].filter((file) =>
    /\bprocess\.(?:env|exit|on|once|kill|abort)\b/.test(readFileSync(file, "utf8")),
  );
  expect(guilty.map((file) => path.relative(source, file))).toEqual([]);
});
