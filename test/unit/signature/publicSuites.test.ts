import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { CapturedRequest } from "../../../src/signature/identify/candidates.ts";
import { identifyScheme } from "../../../src/signature/identify/identifyScheme.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import recordedSenders from "../../support/signing/recordedSenders.json" with { type: "json" };
import { capture, draw, SENDERS } from "../../support/signing/senders.ts";
import { ENDPOINT_URL } from "../../support/signing/signing.ts";

/** A valid request published by a public suite. */
interface Published {
  readonly suite: string;
  readonly name: string;
  readonly secrets: readonly string[];
  readonly request: CapturedRequest;
  readonly now: number;
  readonly url?: string;
}

interface Vector {
  readonly id: string;
  readonly secrets: string[];
  readonly headers: Record<string, string>;
  readonly body?: string;
  readonly bodyRepeat?: [string, number];
  readonly now: number;
  readonly valid: boolean;
}

/** Suites next to the checkout, not in it. */
const FOLDER = path.resolve(import.meta.dirname, "../../../../shared/vectors/signatures");
/** Suites that can be put there, but are published neither by npm nor by Debian. */
const ABSENT = ["providers.json", "wycheproof.json"].filter((name) => !existsSync(path.join(FOLDER, name)));
/** The share of the requests that must be identified. */
const GOAL = 0.95;
/** Secrets for each installed library; each signs three requests. */
const DRAWS = 15;
const TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

function publish(
  [suite, name]: readonly [suite: string, name: string],
  of: Pick<Published, "secrets" | "now" | "url">,
  sent: { headers: object; body: Buffer; target?: string },
): Published {
  const headers = Object.entries(sent.headers).map(([header, value]) => [
    header.toLowerCase(),
    [String(value)],
  ]);
  const headersDistinct = Object.fromEntries(headers) as Record<string, string[]>;
  return {
    suite,
    name: `${suite}: ${name}`,
    ...of,
    request: { headersDistinct, body: sent.body, target: sent.target },
  };
}

function readSuites(): Published[] {
  if (!existsSync(FOLDER)) {
    process.stderr.write(`NOT RUN: identifying the public vectors in ${FOLDER}; there is no such folder.\n`);
    return [];
  }
  return readdirSync(FOLDER).flatMap((file) => {
    const { vectors } = JSON.parse(readFileSync(path.join(FOLDER, file), "utf8")) as { vectors: Vector[] };
    return vectors
      .filter(({ valid }) => valid)
      .map(({ id, secrets, now, headers, body, bodyRepeat }) => {
        const [text, times] = bodyRepeat ?? [body ?? "", 1];
        return publish([file, id], { secrets, now }, { headers, body: Buffer.from(text.repeat(times)) });
      });
  });
}

/**
 * adcontextprotocol/adcp, static/test-vectors/webhook-hmac-sha256.json (Apache-2.0): signing time, body, signature. Its
 * secret is published and used nowhere else.
 */
const ADCP_SECRET = "cc237f7fe354609bb41360c6530a2deb7926f3cc55e91df3ff90e37202950b6c";
const ADCP: readonly [at: number, body: string, signature: string][] = [
  [
    1_700_000_000,
    '{"event":"creative.status_changed","creative_id":"creative_123","status":"approved"}',
    "0987f9b3e89d331142297dbc0e992edbc13b2ae29e7038ed8f948b565aa05c4b",
  ],
  [
    1_700_000_000,
    '{"event": "creative.status_changed", "creative_id": "creative_123", "status": "approved"}',
    "cb4ae9d57971c70226a2aaab646c59c344a4bcf91075adcfc1939e4b3207856d",
  ],
  [1_700_000_000, "{}", "06338bfc687c7a3677ea16420e527469d6717bb966451d29c685de8f0270f073"],
  [
    1_700_000_000,
    '{"task_id":"task_456","operation_id":"op_789","result":{"media_buy_id":"mb_001","packages":[{"package_id":"pkg_1"},{"package_id":"pkg_2"}]}}',
    "87e50a904acee36e04a9a4bb2a02281ac0fbbef0be129258a8500da84567570a",
  ],
  [
    1_700_000_000,
    '{"brand_name":"Café Münchën","tagline":"日本語テスト"}',
    "0e445863247724694581d538497527218443961f15c9645d656b52d8fdca4f9c",
  ],
  [
    1_700_000_000,
    '{\n  "status": "completed",\n  "result": {\n    "id": "mb_001"\n  }\n}',
    "0ee5202fd647ce9390bc8b0a220edf5c98c791ffeecbbd781a54c1d9a80cd9e3",
  ],
  [
    1_700_000_000,
    '{"price":19.99,"count":1000,"active":true,"discount":null}',
    "f9dde4b6d4e096d7283fb14cb74b4b143627c17245957e33660a430dfd705d4f",
  ],
  [1_700_000_000, "", "d9f70ba6cb43e92a8f55c1fc73bec0f8f07fa3a652e1ec1d5ee69846cfde9fe8"],
  [0, '{"event":"test"}', "e098ea1f745765614027918d988930b96c38a2f8e2b5d05560f4bffa53d77dcd"],
  [2_208_988_800, '{"event":"test"}', "4b9923c61f2d51b20e4df1231827dd8b760b0ab99f80cab739cdead6841f0d69"],
  [
    1_700_000_000,
    '{"event":"test\u0000null"}',
    "8c58874bc393c7941088d48da3af913c4dcb3fb20244bf0ab0543cb872cb5330",
  ],
  [1_700_000_000, '{"event":"test"}\n', "a1ea163af47d6b34ce0de5d27c4c88b5dd9f348dd8a2bc2751a71f8f27622738"],
  [
    1_700_000_000,
    '{"key with spaces":1,"nested":{"inner key":[1,2,{"deep key":"v"}],"flag":true}}',
    "5c78d76825b71f081e28376f8ab4a66bfd4efb888e3d212c63a99f94acbf2785",
  ],
  [
    1_700_000_000,
    String.raw`{"name":"caf\u00e9","region":"\u65e5\u672c"}`,
    "f079a1c8b2501ac4ac1ba22895853d1901730a3b6db8f3844dfcdb0b213b1c91",
  ],
  [
    1_700_000_000,
    '{"event":"creative.status_changed","creative_id":"creative_123","status":"approved","status":"rejected"}',
    "7fd84f13f71228b5c0dc24b58acafaa62855b26fe5477a31e88884ed24ae5b7f",
  ],
];
const adcp = ADCP.map(([at, body, signature], place) =>
  publish(
    ["adcp", String(place + 1)],
    { secrets: [ADCP_SECRET], now: at },
    {
      headers: { "x-adcp-timestamp": at, "x-adcp-signature": `sha256=${signature}` },
      body: Buffer.from(body),
    },
  ),
);

/** The example of GitHub's documentation, and those of @octokit/webhooks-methods (MIT). */
const github = [
  [
    "It's a Secret to Everybody",
    "Hello, World!",
    "x-hub-signature-256",
    "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
  ],
  [
    "mysecret",
    '{"foo":"bar"}',
    "x-hub-signature-256",
    "sha256=4864d2759938a15468b5df9ade20bf161da9b4f737ea61794142f3484236bda3",
  ],
  ["mysecret", '{"foo":"bar"}', "x-hub-signature", "sha1=d03207e4b030cf234e3447bac4d93add4c6643d8"],
].map(([secret = "", body = "", header = "", signature = ""]) =>
  publish(
    ["github", `${header} ${secret}`],
    { secrets: [secret], now: 0 },
    { headers: { [header]: signature }, body: Buffer.from(body) },
  ),
);

/** Requests that libraries of npm made, or accepted as valid; recorded, because no test needs those packages otherwise. */
const recorded = recordedSenders.suites.flatMap(({ name, library, requests }) =>
  requests.map(({ secret, headers, body, target }, place) =>
    publish(
      [`${name} (${library})`, String(place + 1)],
      { secrets: [secret], now: recordedSenders.at, url: recordedSenders.url },
      { headers, body: Buffer.from(body), target },
    ),
  ),
);

const RENAMED = ["x-courier-seal", "x-shop-proof", "x-7f"];
/** Requests that installed libraries sign now, as the sender sends them and with other names for its headers. */
async function generate(): Promise<Published[]> {
  const drawn = fc.sample(draw, { numRuns: DRAWS, seed: 7 });
  const made = Object.entries(SENDERS).flatMap(([suite, { preset, secretOf, sign }]) =>
    drawn.flatMap(({ bytes, letters }, at) =>
      letters.map(async (letter, place) => {
        const secret = secretOf(bytes);
        const { headersDistinct, body, target } = capture(await sign(letter, secret), letter);
        const isRenamed = preset !== null && place > 0;
        const headers = Object.fromEntries(
          Object.entries(headersDistinct).map(([name, values]) => {
            const other = name.replace(/^.*signature.*$/, RENAMED[at % RENAMED.length] ?? "");
            return [isRenamed ? other : name, values?.[0]];
          }),
        );
        return publish(
          [isRenamed ? `${suite}, renamed` : suite, `${at + 1} ${place + 1}`],
          { secrets: [secret], now: letter.at, url: ENDPOINT_URL },
          {
            headers: { traceparent: TRACE, "x-request-id": letter.id, ...headers },
            body,
            target: target ?? "",
          },
        );
      }),
    ),
  );
  return Promise.all(made);
}

const published = [...readSuites(), ...adcp, ...github, ...recorded, ...(await generate())];
const identified = new Set<Published>();

describe("valid requests of public suites and of senders' libraries", () => {
  it.each(published.map((each) => [each.name, each] as const))("%s", (_, each) => {
    const { secrets, request, now, url } = each;
    const query = request.target?.split("?")[1];
    const found = secrets.flatMap((secret) =>
      identifyScheme({ requests: [request], secret, nowSeconds: now, url }).matches.map(({ setting }) => ({
        setting,
        secret,
      })),
    );
    // Every scheme found verifies the request; the test below counts how often one is found.
    for (const { setting, secret } of found) {
      const { verify } = loadVerifier({ scheme: loadScheme(setting), secrets: [secret], url });
      expect(verify({ ...request, query, nowSeconds: now })).toMatchObject({ valid: true });
      expect(verify({ ...request, query, nowSeconds: now, body: Buffer.from("{}x") })).toMatchObject({
        valid: false,
      });
    }
    if (found.length > 0) identified.add(each);
  });

  it(`are identified in ${GOAL * 100} of 100 cases`, () => {
    const lines = [...new Set(published.map(({ suite }) => suite))].map((suite) => {
      const all = published.filter((each) => each.suite === suite);
      return `  ${suite}: ${all.filter((each) => identified.has(each)).length} of ${all.length}\n`;
    });
    const missed = published.filter((each) => !identified.has(each)).map(({ name }) => name);
    process.stderr.write(
      `identify-signature found the scheme of ${identified.size} of ${published.length} valid requests${missed.length === 0 ? "" : `, not of ${missed.join(", ")}`}.\n` +
        `${lines.join("")}NOT RUN, for lack of the files: ${ABSENT.join(", ") || "none"}.\n`,
    );
    expect(identified.size).toBeGreaterThanOrEqual(published.length * GOAL);
  });
});
