import type { IncomingMessage } from "node:http";
import { makeAddressCheck } from "../../runtime/config/signOnVariables.ts";
import type { SignOn } from "../../runtime/config/signOnVariables.ts";
import type { Person } from "./access.ts";

const NAME_LENGTH_MAX = 255;
/** Several headers of one name may arrive joined by commas. */
const NAME = /^[^\p{Cc},]+$/u;

/**
 * The person named in the proxy's headers; undefined if the request does not come from the proxy or names nobody. A
 * repeated header names nobody: one of the two could be the client's.
 */
export function makeProxySignOn({ addresses, userHeader, groupsHeader }: NonNullable<SignOn["proxy"]>) {
  const isProxy = makeAddressCheck(addresses);
  return ({ socket, rawHeaders }: IncomingMessage): Person | undefined => {
    if (!isProxy(socket.remoteAddress)) return undefined;
    const [name = "", ...others] = valuesOf(rawHeaders, userHeader);
    if (others.length > 0 || name.length > NAME_LENGTH_MAX || !NAME.test(name)) return undefined;
    const groups = valuesOf(rawHeaders, groupsHeader)
      .flatMap((value) => value.split(","))
      .map((group) => group.trim())
      .filter((group) => group !== "");
    return { name, groups };
  };
}

/** Every value of a header, as UTF-8. */
function valuesOf(rawHeaders: readonly string[], wanted: string): string[] {
  return rawHeaders.flatMap((name, place) =>
    place % 2 === 0 && name.toLowerCase() === wanted
      ? [
          Buffer.from(rawHeaders[place + 1] ?? "", "latin1")
            .toString("utf8")
            .trim(),
        ]
      : [],
  );
}
