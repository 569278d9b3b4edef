import { BlockList, isIP } from "node:net";
import type { ACCESS_VARIABLES } from "./accessVariables.ts";
import { namesThisMachine } from "../http/loopback.ts";
import { isPublicAddress, list, text } from "./variableSchemas.ts";
import type { ValuesOf, Variable } from "./variableSchemas.ts";

/** The holder of a role: a group or a person of the sign-on, for all sources or for one. */
export interface Grant {
  /** Name of a group or a person; `*` is everybody who has signed on. */
  readonly name: string;
  /** Null: for all sources. */
  readonly sourceId: string | null;
}

/** How people sign on with another program. */
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

const grants = list.transform((entries) =>
  entries.map((entry): Grant => {
    const at = entry.lastIndexOf("|");
    return at === -1
      ? { name: entry, sourceId: null }
      : { name: entry.slice(0, at).trim(), sourceId: entry.slice(at + 1).trim() };
  }),
);

const issuer = text.refine(
  (value) =>
    isPublicAddress(value) && (new URL(value).protocol === "https:" || namesThisMachine(new URL(value).host)),
  "must be an address that starts with https://, without a user and password",
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
  OIDC_ISSUER: {
    schema: issuer,
    unset: "no OpenID Connect",
    meaning:
      "OpenID Connect issuer for logging in to the ops pages; needs OIDC_CLIENT_ID, OIDC_CLIENT_SECRET and PUBLIC_URL; the redirect address is PUBLIC_URL/ops/login/oidc/done",
  },
  OIDC_CLIENT_ID: { schema: text, meaning: "name of this client at the issuer" },
  OIDC_CLIENT_SECRET: {
    schema: text,
    secret: true,
    meaning: "secret of this client; changing it ends all sessions",
  },
  OIDC_SCOPE: {
    schema: text.refine((value) => value.split(" ").includes("openid"), "must contain openid"),
    default: "openid email profile",
    meaning: "scopes to request; some issuers send groups only for a scope of their own",
  },
  OIDC_GROUPS_CLAIM: { schema: text, default: "groups", meaning: "claim that lists the person's groups" },
  OPS_OPERATORS: {
    schema: grants,
    unset: "nobody, with single sign-on",
    meaning:
      "operators of single sign-on: groups or persons, comma separated; GROUP|SOURCE: may act on that source only; none: nobody",
  },
  OPS_VIEWERS: {
    schema: grants,
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

type SignOnValues = ValuesOf<typeof SIGN_ON_VARIABLES & Pick<typeof ACCESS_VARIABLES, "PUBLIC_URL">>;

export function makeSignOn(values: SignOnValues) {
  const { OPS_PROXY_ADDRESSES: addresses, OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET } = values;
  const publicUrl = values.PUBLIC_URL?.[0];
  const proxy = addresses && {
    /** Addresses whose headers are trusted, and networks such as 10.0.0.0/8. */
    addresses,
    userHeader: values.OPS_USER_HEADER,
    groupsHeader: values.OPS_GROUPS_HEADER,
  };
  const openIdConnect =
    OIDC_ISSUER === null || OIDC_CLIENT_ID === null || OIDC_CLIENT_SECRET === null || publicUrl === undefined
      ? null
      : {
          issuer: OIDC_ISSUER,
          clientId: OIDC_CLIENT_ID,
          clientSecret: OIDC_CLIENT_SECRET,
          groupsClaim: values.OIDC_GROUPS_CLAIM,
          scope: values.OIDC_SCOPE,
          /** Public address of the web process, to which the provider redirects people. */
          publicUrl,
        };
  if (proxy === null && openIdConnect === null) return null;
  return { proxy, openIdConnect, operators: values.OPS_OPERATORS ?? [], viewers: values.OPS_VIEWERS ?? [] };
}

/** Incomplete or contradictory settings that would exclude somebody or admit somebody by accident. */
export function listSignOnProblems(values: SignOnValues, sourceIds: readonly string[]): string[] {
  const { OPS_PROXY_ADDRESSES, OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET } = values;
  const { OPS_OPERATORS, OPS_VIEWERS, PUBLIC_URL } = values;
  const client = { OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET };
  const set = Object.entries(client).filter(([, value]) => value !== null);
  const problems: string[] = [];
  if (set.length > 0) {
    for (const [name, value] of Object.entries(client))
      if (value === null) problems.push(`${name} is not set, but ${set[0]?.[0]} is. Set all three or none.`);
    if (PUBLIC_URL === null)
      problems.push(
        "OIDC_ISSUER is set without PUBLIC_URL. People are redirected back to PUBLIC_URL; set it.",
      );
    else if (new URL(PUBLIC_URL[0] ?? "").pathname !== "/")
      problems.push(
        "OIDC_ISSUER is set, but PUBLIC_URL has a path. The ops pages need a host of their own; put its address first, without a path.",
      );
  }
  const signsOn = OPS_PROXY_ADDRESSES !== null || set.length > 0;
  const grants = { OPS_OPERATORS, OPS_VIEWERS };
  if (signsOn && OPS_OPERATORS === null && OPS_VIEWERS === null)
    problems.push("Single sign-on is set, but nobody may log in. Set OPS_OPERATORS or OPS_VIEWERS.");
  for (const [name, given] of Object.entries(grants)) {
    if (given === null) continue;
    if (!signsOn)
      problems.push(`${name} is set without single sign-on. Set OPS_PROXY_ADDRESSES or OIDC_ISSUER too.`);
    for (const { sourceId, name: group } of given) {
      if (group === "") problems.push(`${name} has an entry without a name. Correct or remove it.`);
      if (sourceId !== null && sourceIds.length > 0 && !sourceIds.includes(sourceId))
        problems.push(`${name} names the source ${sourceId}, which is not configured. Correct or remove it.`);
    }
  }
  if (OPS_OPERATORS?.some(({ name }) => name === "*") === true)
    problems.push("OPS_OPERATORS is *. Name the groups or persons who may act.");
  return problems;
}
