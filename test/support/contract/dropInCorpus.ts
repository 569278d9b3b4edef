/** One request of the comparison between the provider and the mirror, as sent. */
export interface CorpusRequest {
  readonly method: string;
  /** Path and query, exactly as sent. */
  readonly target: string;
  readonly as: "live" | "test" | "nobody" | "stranger" | "basic" | "empty" | "lowerCase" | "twoSpaces";
  readonly headers?: Readonly<Record<string, string>>;
}

/** The values that the requests name, which differ in each run. */
export interface CorpusWorld {
  /** Sorted by updatedAt. */
  readonly orders: readonly {
    readonly reference: string;
    readonly externalOrderId: string | null;
    readonly updatedAt: string;
    readonly pickupTime: string;
    readonly deliveryTime: string;
  }[];
  readonly testReference: string;
  readonly branches: readonly { readonly id: string; readonly reference: string | null }[];
}

const words = (text: string) => text.split(" ");
const LIST = "/v1/orders";
const STATUSES = words("created arrived_for_pickup picked_up arrived_for_delivery delivered cancelled");
const UNKNOWN_ID = "00000000-0000-4000-8000-000000000000";

/** Values of every parameter: usual ones, bounds, invalid ones, encodings. As written in an address. */
function valuesOf(world: CorpusWorld): Readonly<Record<string, readonly string[]>> {
  const { orders, branches } = world;
  const middle = orders[Math.floor(orders.length / 2)]!;
  const instants = (own: string) => [
    ...[own, own.replace(/\+(\d\d):(\d\d)$/, "+$1$2"), own.replace(/\+01:00$/, "+01")].map(
      encodeURIComponent,
    ),
    encodeURIComponent(own.replace("T", " ")),
    new Date(own).toISOString(),
    new Date(own).toISOString().replace("Z", "000001Z"),
    new Date(own)
      .toISOString()
      .replace(/\.\d+Z/, "Z")
      .toLowerCase(),
    new Date(Date.parse(own) - 1).toISOString().replace("Z", "999999Z"),
    ...words("2026-11-22T10:00Z 2026-11-22T10:00:00,5Z 2026-12-31T23:59:60Z 0000-01-01T00:00:00Z"),
    ...words("0001-01-01T00:00:00Z 1677-01-01T00:00:00Z 2262-12-31T00:00:00Z 9999-12-31T23:59:59.999999999Z"),
    ...words("2026-02-30T10:00:00Z 2026-11-22T24:00:00Z 2026-11-22 2026-11-22T10:00:00 now"),
    "",
    own,
  ];
  const numbers = [
    ...words("0 1 2 7 50 200 201 007 0000000000002 1e2 1.0 -1 %2B1 +1 1000000 10000001"),
    ...words("1000000000 1000000001 99999999999999999999 0x10 %EF%BC%91"),
    "",
  ];
  return {
    updatedUntil: instants(middle.updatedAt),
    updatedSince: instants(middle.updatedAt),
    pickupFrom: instants(middle.pickupTime),
    pickupUntil: instants(middle.pickupTime),
    deliveryFrom: instants(middle.deliveryTime),
    deliveryUntil: instants(middle.deliveryTime),
    limit: numbers,
    offset: numbers,
    status: [...STATUSES, ...words("nonsense CREATED %20created created,cancelled %00"), "x".repeat(300), ""],
    branch: [
      ...branches.flatMap(({ id, reference }) => [
        id,
        id.toUpperCase(),
        ...(reference === null ? [] : [reference]),
      ]),
      ...words(`leiden Centrum noord winkel ${UNKNOWN_ID} nowhere %00 %ED%A0%80`),
      "x".repeat(300),
      "",
    ],
    sort: [...words("updatedAt pickupTime createdAt UPDATEDAT -updatedAt updatedAt%20"), ""],
    unheardOf: ["1", "%zz", ""],
  };
}

function* listRequests(world: CorpusWorld): Generator<string> {
  const first = encodeURIComponent(world.orders[0]!.updatedAt);
  const rest: Readonly<Record<string, string>> = {
    updatedSince: "&updatedUntil=2200-01-01T00:00:00Z",
    updatedUntil: `&updatedSince=${first}`,
  };
  for (const [name, values] of Object.entries(valuesOf(world))) {
    for (const value of values) yield `${LIST}?${name}=${value}${rest[name] ?? ""}`;
    yield `${LIST}?${name}=${values[0]}&${name}=${values[0]}${rest[name] ?? ""}`;
    yield `${LIST}?${name}${rest[name] ?? ""}`;
  }
  yield `${LIST}?updatedSince=${first}`;
  yield `${LIST}?updatedUntil=${first}`;
  for (const status of STATUSES)
    for (const branch of ["centrum", "utrecht"])
      for (const page of ["", "&limit=1", "&limit=2&offset=1", "&offset=500", "&sort=pickupTime"])
        yield `${LIST}?status=${status}&branch=${branch}${page}`;
  yield LIST;
  for (const query of ["", ...words("&& = % limit=2&LIMIT=1 limit=2#x")]) yield `${LIST}?${query}`;
}

/** Addresses that no method changes. */
function pathsOf(world: CorpusWorld): readonly string[] {
  const { reference, externalOrderId } = world.orders[0]!;
  const escaped = `%${reference.codePointAt(0)!.toString(16)}${reference.slice(1)}`;
  const names = [
    reference,
    reference.toLowerCase(),
    escaped,
    `${reference}%20`,
    `${reference}%00`,
    world.testReference,
    encodeURIComponent(externalOrderId ?? "none"),
    ...words("nobody %zz %00 %2F %2e%2e .. . a;b %C3%A9"),
  ];
  return [
    ...names.map((name) => `${LIST}/${name}`),
    ...["orders/", "Orders", "orders//x", "orders/x/", "orders/x/y", "order", "", "x/../orders"].map(
      (path) => `/v1/${path}`,
    ),
    ...words("/v1 /V1/orders /v2/orders /v1.0/orders /v10/branches //v1/orders /v1//orders /nowhere"),
    ...words("/v1/branches /v1/branches/ /v1/branches/x /v1/branches?limit=1&offset=5&unheardOf=1"),
    ...words(
      "/v1/orders/nobody/cancel /v1/orders/nobody/advance /v1/test/orders/nobody/advance /v1/test/orders",
    ),
    ...words(
      "/v1/addresses/validate /v1/addresses /v1/orders/quote /v1/orders/quote/ /v1/orders.csv /v1/changes",
    ),
  ];
}

const READS = ["GET", "HEAD"];
/** PATCH and POST of an existing order would change it, so these name none, or have no body. */
const OTHERS = ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"];

/** All requests of the comparison, from the dimensions above. */
export function makeCorpus(world: CorpusWorld): readonly CorpusRequest[] {
  const as = "live";
  const lists = [...listRequests(world)].map((target) => ({ method: "GET", target, as }) as const);
  const paths = pathsOf(world);
  const reads = paths.flatMap((target) => READS.map((method) => ({ method, target, as }) as const));
  const others = ["", LIST, "/v1/orders/nobody", ...paths.slice(-16)].flatMap((target) =>
    OTHERS.map((method) => ({ method, target: target || "/v1/nowhere", as }) as const),
  );
  const callers = (
    ["test", "nobody", "stranger", "basic", "empty", "lowerCase", "twoSpaces"] as const
  ).flatMap((caller) =>
    [
      LIST,
      "/v1/branches",
      `${LIST}/${world.orders[0]!.reference}`,
      `${LIST}/${world.testReference}`,
      "/v1/x",
      "/v2/x",
      "/nowhere",
    ].map((target) => ({ method: "GET", target, as: caller })),
  );
  const headers = [
    { accept: "text/html" },
    { "accept-encoding": "gzip" },
    { range: "bytes=0-3" },
    { "if-none-match": "*" },
    { "if-modified-since": "Sun, 22 Nov 2026 10:00:00 GMT" },
    { expect: "100-continue" },
    { "x-http-method-override": "DELETE" },
    { "content-type": "text/plain" },
  ].map((given) => ({ method: "GET", target: "/v1/branches", as, headers: given }) as const);
  const own = [...words("fleet=x revisions=1 cursor=x"), "sort=firstSeenAt"].map(
    (query) => ({ method: "GET", target: `${LIST}?${query}`, as }) as const,
  );
  return [...lists, ...reads, ...others, ...callers, ...headers, ...own];
}
