import { expect, it } from "vitest";
import { openOpsPages } from "../../support/pages/opsServer.ts";
import { ask } from "../../support/http/ask.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { logInto } from "../../support/run/logInto.ts";

const lines: string[] = [];

const config = { opsPassword: "the operator's password", opsViewerPassword: null, localTrust: false };
const logger = logInto((line) => lines.push(line));
const { database, url } = await openOpsPages({ max: 4, config, logger });
await addSource(database.pool, "live");
await database.pool.query("insert into mirror.outgoing_endpoints (endpoint_id) values ('erp')");

const HEADERS = {
  Authorization: `Basic ${Buffer.from("operator:the operator's password").toString("base64")}`,
};

/** Values that break out of a query, a cast, a pattern, a decoding or a page, as they stand in an address. */
const VALUES = [
  ...`%00 a%00b %2500 1~live~%2500 1~%2500~R1 9223372036854775808~live~R1
-9223372036854775809~live~R1 %ED%A0%80 %25ED%25A0%2580 %FF % %25 _%25_ %27%20or%201%3D1%20--
%5C %3Cscript%3E -1 0 1e400 99999999999999999999 9223372036854775807 NaN null __proto__
constructor toString 0001-01-01T00:00 9999-12-31T23:59 2026-02-30T10:00 99999-01-01T00:00Z
%F0%9F%91%A9`.split(/\s/),
  "x".repeat(5_000),
  `${"%2525".repeat(300)}`,
];
const PARAMETERS = `q source branch fleet status within is from until of sort dir col after did state reason
kind role lost page`.split(/\s/);
const LISTS = [
  "",
  ...`/orders /orders.csv /search /actions /lost /slow /pending /refetches /requests /calls
/coverage /periods /gaps /breaches /quarantine /sources /queue-health /outgoing
/outgoing/erp`.split(/\s/),
];
const PATHS = `/orders/V/V /orders/live/V /quarantine/V /events/live/V /events/V/V /sources/V /outgoing/V
/outgoing/erp/V /V`.split(/\s/);

async function failuresOf(addresses: readonly string[]): Promise<string[]> {
  const failed: string[] = [];
  const rest = [...addresses];
  const walk = async () => {
    for (let address = rest.pop(); address !== undefined; address = rest.pop()) {
      const { status } = await ask(`${url}/ops${address}`, { headers: HEADERS });
      if (status === undefined || status >= 500) failed.push(`${status} ${address.slice(0, 200)}`);
    }
  };
  await Promise.all([walk(), walk(), walk(), walk()]);
  return failed.toSorted();
}

it.each(LISTS)(
  "no parameter of /ops%s breaks it",
  async (path) => {
    const addresses = PARAMETERS.flatMap((name) => [
      ...VALUES.map((value) => `${path}?${name}=${value}`),
      `${path}?${name}=a&${name}=b`,
      `${path}?${name}[]=a`,
      `${path}?${name}[__proto__]=a`,
    ]);
    expect(await failuresOf(addresses)).toEqual([]);
  },
  120_000,
);

it.each(PATHS)("no name in the path /ops%s breaks it", async (path) => {
  expect(await failuresOf(VALUES.map((value) => path.replaceAll("V", value)))).toEqual([]);
});

it("no field of a form breaks it", async () => {
  const posts = `/pause /resume /gap /quarantine/retry /quarantine/dismiss /orders/live/V/refetch
/orders/V/R1/refetch /outgoing/erp/V/retry`.split(/\s/);
  const failed: string[] = [];
  for (const path of posts) {
    for (const value of VALUES) {
      const fields = ["source", "through", "id", "reason", "job", "from", "until", "endpoint"];
      const body = fields.map((name) => `${name}=${value}`).join("&");
      const answer = await ask(`${url}/ops${path.replaceAll("V", value)}`, {
        method: "POST",
        headers: { ...HEADERS, "Content-Type": "application/x-www-form-urlencoded" },
        body,
      });
      if (answer.status === undefined || answer.status >= 500)
        failed.push(`${answer.status} ${path} ${value.slice(0, 40)}`);
    }
  }
  expect(failed).toEqual([]);
}, 120_000);
