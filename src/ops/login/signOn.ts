import type { IncomingMessage } from "node:http";
import { BlockList, isIP } from "node:net";
import type { RequestHandler } from "express";
import type { SignOn } from "../../config/config.ts";
import { setViewer, sendRefusal, type Viewer } from "../page.ts";
import type { Logger } from "../../process/telemetry/logger.ts";

/** A person as named by the proxy. */
interface Person {
  /** For the audit log and for granting roles. */
  readonly name: string;
  readonly groups: readonly string[];
}

const NO_ROLE = "You are signed on, but neither you nor one of your groups has a role here.";

const EVERYBODY = "*";

const NAME_LENGTH_MAX = 255;

/** Several headers of one name may arrive joined by commas. */
const NAME = /^[^\p{Cc},]+$/u;

/**
 * Admits a person named by the proxy, with the granted role (403: none was granted); leaves other requests to
 * `otherwise`.
 */
export function makeProxyEntrance(
  { signOn, logger }: { readonly signOn: SignOn; readonly logger: Logger },
  otherwise: RequestHandler,
): RequestHandler {
  const findPerson = makePersonReader(signOn);
  return (request, response, next) => {
    const person = findPerson(request);
    if (person === undefined) return otherwise(request, response, next);
    const viewer = findAccess(signOn, person);
    if (viewer !== undefined) return setViewer(response, viewer, next);
    logger.warn({ outcome: "no_role", remote_ip: request.socket.remoteAddress ?? "" }, "ops login refused");
    return sendRefusal(response, 403, NO_ROLE);
  };
}

/** The access of a person: the highest role granted to the name or to a group. Undefined: no role was granted. */
function findAccess({ operators, viewers }: SignOn, { name, groups }: Person): Viewer | undefined {
  const isTheirs = (grant: string) => grant === EVERYBODY || grant === name || groups.includes(grant);
  if (operators.some(isTheirs)) return { role: "operator", person: name };
  return viewers.some(isTheirs) ? { role: "viewer", person: name } : undefined;
}

/**
 * The person named in the proxy's headers; undefined if the request does not come from the proxy or names nobody. A
 * repeated header names nobody: one of the two could be the client's.
 */
function makePersonReader({ addresses, userHeader, groupsHeader }: SignOn) {
  const isProxy = makeAddressCheck(addresses);
  return ({ socket, rawHeaders }: IncomingMessage): Person | undefined => {
    if (!isProxy(socket.remoteAddress)) return undefined;
    const [name = "", ...otherNames] = valuesOf(rawHeaders, userHeader);
    const [list = "", ...otherLists] = valuesOf(rawHeaders, groupsHeader);
    if (otherNames.length > 0 || otherLists.length > 0) return undefined;
    if (name.length > NAME_LENGTH_MAX || !NAME.test(name)) return undefined;
    const groups = list
      .split(",")
      .map((group) => group.trim())
      .filter((group) => group !== "");
    return { name, groups };
  };
}

/** Every value of a header, as UTF-8. */
function valuesOf(rawHeaders: readonly string[], wanted: string): string[] {
  return rawHeaders
    .filter((_, place) => place % 2 === 1 && rawHeaders[place - 1]?.toLowerCase() === wanted)
    .map((value) => Buffer.from(value, "latin1").toString("utf8").trim());
}

/** Whether an address is one of `addresses` or in one of their networks. */
function makeAddressCheck(addresses: readonly string[]): (address: string | undefined) => boolean {
  const known = new BlockList();
  for (const each of addresses) {
    const [address = "", prefix] = each.split("/");
    const family = isIP(address) === 6 ? "ipv6" : "ipv4";
    if (prefix === undefined) known.addAddress(address, family);
    else known.addSubnet(address, Number(prefix), family);
  }
  return (address = "") => {
    const family = isIP(address);
    // An IPv4 address that is written as an IPv6 one is in the networks of either.
    return family !== 0 && known.check(address, family === 6 ? "ipv6" : "ipv4");
  };
}
