import { expect, it } from "vitest";
import { openOpsPages } from "../../support/pages/opsServer.ts";
import { ask } from "../../support/http/serve.ts";
import { addSource } from "../../support/mirror/orders.ts";

const { database, url, as } = await openOpsPages({ max: 4 });
await addSource(database.pool, "live");
await database.pool.query("insert into mirror.outgoing_endpoints (endpoint_id) values ('erp')");

/** Values that break out of a query, a cast, a pattern, a decoding or a page, as they stand in an address. */
const VALUES = [
  ...`%00 a%00b %2500 9223372036854775808 -9223372036854775809 %ED%A0%80 %25ED%25A0%2580 %FF % %25 _%25_
%27%20or%201%3D1%20-- %5C %3Cscript%3E -1 1e400 NaN __proto__ constructor 9999-12-31T23:59 2026-02-30T10:00
99999-01-01T00:00Z %F0%9F%91%A9`.split(/\s/),
  "x".repeat(5_000),
];
/** All but the position, which refuses the address before anything else is looked at. */
const PARAMETERS =
  `q source branch fleet status within is from until of sort dir state reason kind role person
action outcome sweep proved endpoint range`.split(/\s/);
/** One of each way in which lists read their address. */
const LISTS =
  ` /orders /orders.csv /search /actions /lost /gaps /quarantine /outgoing/messages /sources/live`.split(
    /\s/,
  );
const PATHS = `/orders/V/V /orders/live/V /quarantine/V /events/live/V /sources/V /queue-health/V/V
/V`.split(/\s/);
const FORMS = `/pause /gap /outgoing-pause /outgoing-retry /quarantine/retry /quarantine/dismiss
/orders/V/V/refetch /login`.split(/\s/);
const FIELDS = "source through id reason because endpoint next password".split(" ");

type Asked = readonly [address: string, body?: string];

const ADDRESSES: Readonly<Record<string, readonly Asked[]>> = {
  "parameter of a list": LISTS.flatMap((path) => [
    ...VALUES.map((value): Asked => [`${path}?${PARAMETERS.map((name) => `${name}=${value}`).join("&")}`]),
    ...VALUES.map((value): Asked => [`${path}?after=${value}&after=live&after=${value}&after=1`]),
    ...["=a&NAME=b", "[]=a", "[__proto__]=a"].map((end): Asked => {
      const all = [...PARAMETERS, "after"].map((name) => name + end.replace("NAME", name));
      return [`${path}?${all.join("&")}`];
    }),
  ]),
  "period of the orders": ["updated", "pickup", "delivery"].flatMap((of) =>
    ["0001-01-01T00:00", "9999-12-31T23:59", "2026-02-30T10:00"].map((time): Asked => [
      `/orders?of=${of}&from=${time}&until=${time}&sort=delivery`,
    ]),
  ),
  "name in a path": PATHS.flatMap((path) => VALUES.map((value): Asked => [path.replaceAll("V", value)])),
  "field of a form": FORMS.flatMap((path) =>
    VALUES.map((value): Asked => [
      path.replaceAll("V", value),
      FIELDS.map((name) => `${name}=${value}`).join("&"),
    ]),
  ),
};

it.each(Object.entries(ADDRESSES))("no %s breaks a page", async (_what, asked) => {
  const failed: string[] = [];
  const rest = [...asked];
  const walk = async () => {
    for (let next = rest.pop(); next !== undefined; next = rest.pop()) {
      const [address, body] = next;
      const form = { "Content-Type": "application/x-www-form-urlencoded" };
      const headers = { ...as("operator"), ...(body !== undefined && form) };
      const options = body === undefined ? { headers } : { method: "POST", headers, body };
      const { status = 0 } = await ask(`${url}/ops${address}`, options);
      if (status === 0 || status >= 500) failed.push(`${status} ${address.slice(0, 200)}`);
    }
  };
  await Promise.all([walk(), walk(), walk(), walk()]);
  expect(failed.toSorted()).toEqual([]);
});
