import { BlockList, isIP } from "node:net";
import { list, text } from "./variableSchemas.ts";
import type { ValuesOf, Variable } from "./variableSchemas.ts";

/** How people sign on with a proxy. */
export type SignOn = NonNullable<ReturnType<typeof makeSignOn>>;

const HEADER_NAME = /^[A-Za-z0-9-]{1,100}$/;
const PREFIX_MAX = { 4: 32, 6: 128 } as const;

const headerName = text
  .refine((value) => HEADER_NAME.test(value), "must be the name of a header")
  .transform((value) => value.toLowerCase());

const networks = list.refine(
  (values) => values.length > 0 && values.every(isNetwork),
  "must be addresses such as 10.0.0.5, or networks such as 10.0.0.0/24 that are not the whole internet, comma separated",
);

/** Variables of single sign-on for the ops pages. If none is set, single sign-on is off. */
export const SIGN_ON_VARIABLES = {
  OPS_PROXY_ADDRESSES: {
    schema: networks,
    unset: "no header is trusted",
    meaning:
      "addresses from which the sign-on proxy of the ops pages connects to us, comma separated; it must remove OPS_USER_HEADER and OPS_GROUPS_HEADER from what clients send; none: no header is trusted",
  },
  OPS_USER_HEADER: {
    schema: headerName,
    default: "x-forwarded-user",
    meaning:
      "header in which that proxy sends the person's name: X-Forwarded-User or X-Forwarded-Email (oauth2-proxy), Remote-User (Authelia), Cf-Access-Authenticated-User-Email (Cloudflare Access)",
  },
  OPS_GROUPS_HEADER: {
    schema: headerName,
    default: "x-forwarded-groups",
    meaning: "header in which that proxy sends the person's groups, comma separated",
  },
  OPS_OPERATORS: {
    schema: list,
    unset: "nobody, with single sign-on",
    meaning: "operators of single sign-on: groups or persons, comma separated; none: nobody",
  },
  OPS_VIEWERS: {
    schema: list,
    unset: "nobody, with single sign-on",
    meaning:
      "viewers of single sign-on: groups or persons, comma separated; *: everybody who has signed on; none: nobody",
  },
} as const satisfies Record<string, Variable>;

/** True for an address, and for a network in CIDR notation unless it covers every address. */
function isNetwork(value: string): boolean {
  const [address = "", prefix, ...rest] = value.split("/");
  const family = isIP(address);
  if (family === 0 || rest.length > 0) return false;
  if (prefix === undefined) return true;
  return /^[1-9]\d{0,2}$/.test(prefix) && Number(prefix) <= PREFIX_MAX[family as 4 | 6];
}

/** Whether an address is one of `addresses` or in one of their networks. */
export function makeAddressCheck(addresses: readonly string[]): (address: string | undefined) => boolean {
  const known = new BlockList();
  for (const each of addresses) {
    const [address = "", prefix] = each.split("/");
    const family = isIP(address) === 6 ? "ipv6" : "ipv4";
    if (prefix === undefined) known.addAddress(address, family);
    else known.addSubnet(address, Number(prefix), family);
  }
  return (address = "") => {
    const plain = address.replace(/^::ffff:(?=\d+\.)/i, "");
    const family = isIP(plain);
    return family !== 0 && known.check(plain, family === 6 ? "ipv6" : "ipv4");
  };
}

type SignOnValues = ValuesOf<typeof SIGN_ON_VARIABLES>;

export function makeSignOn(values: SignOnValues) {
  const { OPS_PROXY_ADDRESSES: addresses, OPS_OPERATORS, OPS_VIEWERS } = values;
  if (addresses === null) return null;
  return {
    /** Addresses whose headers are trusted, and networks such as 10.0.0.0/8. */
    addresses,
    userHeader: values.OPS_USER_HEADER,
    groupsHeader: values.OPS_GROUPS_HEADER,
    operators: OPS_OPERATORS ?? [],
    viewers: OPS_VIEWERS ?? [],
  };
}

/** Incomplete or contradictory settings that would exclude somebody or admit somebody by accident. */
export function listSignOnProblems(values: SignOnValues): string[] {
  const { OPS_PROXY_ADDRESSES, OPS_OPERATORS, OPS_VIEWERS } = values;
  const problems: string[] = [];
  if (OPS_PROXY_ADDRESSES !== null && OPS_OPERATORS === null && OPS_VIEWERS === null)
    problems.push("Single sign-on is set, but nobody may log in. Set OPS_OPERATORS or OPS_VIEWERS.");
  for (const [name, given] of Object.entries({ OPS_OPERATORS, OPS_VIEWERS }))
    if (given !== null && OPS_PROXY_ADDRESSES === null)
      problems.push(`${name} is set without single sign-on. Set OPS_PROXY_ADDRESSES too.`);
  if (OPS_OPERATORS?.includes("*") === true)
    problems.push("OPS_OPERATORS is *. Name the groups or persons who may act.");
  return problems;
}
