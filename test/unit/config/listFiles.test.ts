import path from "node:path";
import { describe, expect, it } from "vitest";
import {
  LIVE,
  LISTED,
  OTHER_SECRET,
  SECRET,
  load,
  makeConfigFolder,
  problemsOf,
} from "../../support/config/loading.ts";

const { folder, write } = makeConfigFolder();
const LONGEST = "a".repeat(63);
const sourcesFile = (...sources: object[]) => ({ SOURCES_FILE: write(JSON.stringify(sources)) });

describe("the file of sources", () => {
  it("adds sources, with missing values from the variables", () => {
    const scheme = { header: "x-sig" };
    const config = load({
      ...LIVE,
      WEBHOOK_SCHEME: "github",
      ...sourcesFile(
        { ...LISTED, webhookSecrets: ["first secret here"] },
        { sourceId: "b", mode: "test", organization: "b", apiKey: "dos_test_b", webhookScheme: scheme },
        {
          sourceId: LONGEST,
          mode: "live",
          organization: "b",
          apiKey: " dos_live_c\n",
          webhookScheme: "stripe",
          webhookSecrets: ["first secret here"],
        },
      ),
    });
    expect(config.sources.map(({ sourceId }) => sourceId)).toEqual(["live", "acme-live", "b", LONGEST]);
    expect(config.sources[1]).toEqual({
      ...LISTED,
      baseUrl: "https://acme.example.com",
      webhookSecrets: ["first secret here"],
      webhookScheme: "github",
    });
    expect(config.sources[2]).toMatchObject({
      baseUrl: "https://api.example.com",
      webhookSecrets: [],
      webhookScheme: JSON.stringify(scheme),
    });
    expect(config.sources[3]).toMatchObject({ webhookScheme: "stripe", apiKey: "dos_live_c" });
  });

  it.each<[string, object[], RegExp]>([
    ["two sources of one id", [LISTED, { ...LISTED, apiKey: "dos_live_b" }], /two sources named acme-live/],
    ["one key in two sources", [LISTED, { ...LISTED, sourceId: "b" }], /have the same key/],
    [
      "a key of the other mode",
      [{ ...LISTED, mode: "test" }],
      /source acme-live, apiKey belongs to test mode but holds a live key/,
    ],
    [
      "a source without an address",
      [{ ...LISTED, baseUrl: undefined }],
      /source acme-live, baseUrl is missing\.$/,
    ],
    ["an address without https", [{ ...LISTED, baseUrl: "http://a.test" }], /baseUrl must start with https/],
    [
      "a scheme that is unsafe",
      [{ ...LISTED, webhookScheme: { header: "x", signed: "" } }],
      /webhookScheme is wrong: /,
    ],
    ["a field it does not know", [{ ...LISTED, apikey: "x" }], /"apikey"/],
    ["a source id with capitals", [{ ...LISTED, sourceId: "Acme" }], /source number 1, sourceId must be/],
    [
      "a source id that is too long",
      [{ ...LISTED, sourceId: `${LONGEST}a` }],
      /source number 1, sourceId must be/,
    ],
    ["no source id", [{ ...LISTED, sourceId: undefined }], /source number 1, sourceId is missing/],
    ["a source id that is no text", [{ ...LISTED, sourceId: 1 }], /source number 1, sourceId must be text/],
    ["an unknown mode", [{ ...LISTED, mode: "prod" }], /source acme-live, mode must be/],
  ])("refuses %s", (_what, sources, message) => {
    expect(problemsOf(sourcesFile(...sources))).toEqual([expect.stringMatching(message)]);
  });

  it("refuses a source with the id of one from a key variable", () => {
    expect(problemsOf({ ...LIVE, ...sourcesFile({ ...LISTED, sourceId: "live" }) })).toEqual([
      expect.stringContaining("two sources named live"),
    ]);
  });

  it("is reported when it is missing, not JSON or not a list, without quoting it", () => {
    expect(problemsOf({ SOURCES_FILE: path.join(folder, "missing") })).toEqual([
      expect.stringMatching(/^SOURCES_FILE names .*does not exist/),
    ]);
    const broken = problemsOf({ SOURCES_FILE: write('[{"apiKey":"canary" x]') });
    expect(broken).toEqual([expect.stringContaining("is not valid JSON")]);
    expect(broken.join()).not.toContain("canary");
    expect(problemsOf({ SOURCES_FILE: write("{}") })).toEqual(["SOURCES_FILE must be a list."]);
  });
});

describe("OUTGOING_WEBHOOKS_FILE", () => {
  const endpoint = { name: "erp", url: "https://erp.example.com/orders", secret: SECRET, sources: ["live"] };
  const outgoing = (...endpoints: object[]) => ({
    ...LIVE,
    OUTGOING_WEBHOOKS_FILE: write(JSON.stringify(endpoints)),
  });

  it("lists endpoints that are notified of changes, by default of all kinds", () => {
    const events = ["order.new", "order.status_changed"];
    const env = outgoing(endpoint, {
      name: "bi",
      url: "https://bi:8080/",
      secret: `${OTHER_SECRET}, ${SECRET}`,
      sources: ["live", "live"],
      events,
      statuses: ["picked_up"],
      fields: "all",
      ordered: true,
      rate: 5,
    });
    expect(load(env).outgoingWebhooks).toEqual([
      {
        endpointId: "erp",
        url: endpoint.url,
        secrets: [SECRET],
        sourceIds: ["live"],
        types: null,
        statuses: null,
        fields: "redacted",
        ordered: false,
        rate: null,
        definition: expect.stringMatching(/^[0-9a-f]{32}$/),
      },
      {
        endpointId: "bi",
        url: "https://bi:8080/",
        secrets: [OTHER_SECRET, SECRET],
        sourceIds: ["live"],
        types: events,
        statuses: ["picked_up"],
        fields: "all",
        ordered: true,
        rate: 5,
        definition: expect.stringMatching(/^[0-9a-f]{32}$/),
      },
    ]);
  });

  it.each([
    { secret: OTHER_SECRET },
    { statuses: ["picked_up"] },
    { fields: "all" },
    { ordered: true },
    { rate: 5 },
  ])("is known to be listed differently by %j", (more) => {
    const definitionOf = (fields: object) =>
      load(outgoing({ ...endpoint, ...fields })).outgoingWebhooks[0]!.definition;
    expect(definitionOf(more)).not.toBe(definitionOf({}));
  });

  it.each([
    [
      "a source that is not configured",
      { ...endpoint, sources: ["test"] },
      /endpoint erp, sources has test, which is not/,
    ],
    ["no secret", { ...endpoint, secret: undefined }, /endpoint erp, secret is missing/],
    [
      "a secret to be guessed",
      { ...endpoint, secret: "whsec_abcd" },
      /erp, secret is wrong: .* only 3 bytes/,
    ],
    ["a secret of another format", { ...endpoint, secret: "not base64" }, /endpoint erp, secret is wrong: /],
    ["an address that is none", { ...endpoint, url: "erp" }, /endpoint erp, url must be/],
    [
      "http to another machine",
      { ...endpoint, url: "http://erp.example" },
      /endpoint erp, url must be .*https:\/\//,
    ],
    [
      "a kind of change that there is not",
      { ...endpoint, events: ["order.lost"] },
      /endpoint erp, events\.0 must be/,
    ],
    ["a name for a file", { ...endpoint, name: "../erp" }, /endpoint number 1, name must be/],
    ["something unknown", { ...endpoint, secrets: [] }, /endpoint erp has unknown fields: "secrets"/],
    ["two endpoints with the same name", [endpoint, endpoint], /lists the endpoint erp twice/],
  ])("refuses %s", (_, endpoints, problem) => {
    const problems = problemsOf(outgoing(...[endpoints].flat()));
    expect(problems).toEqual([expect.stringMatching(problem)]);
    expect(problems.join()).not.toContain(SECRET);
  });
});
