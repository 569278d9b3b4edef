import type { IncomingMessage } from "node:http";
import { makeAddressCheck } from "../../runtime/config/signOnVariables.ts";
import type { SignOn } from "../../runtime/config/signOnVariables.ts";
import type { Person } from "./access.ts";

const NAME_LENGTH_MAX = 255;
/** Several headers of one name may come as one with a comma between. */
const NAME = /^[^\p{Cc},]+$/u;

/**
 * The person whom the proxy names in its headers; undefined when the request does not come from it, or names nobody. A header
 * that is there twice names nobody: one of the two would be a client's.
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
