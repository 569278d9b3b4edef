import type { Grant, SignOn } from "../../runtime/config/signOnVariables.ts";
import type { Viewer } from "./viewer.ts";

/** A person as single sign-on names one. */
export interface Person {
  /** For the audit log, and to be granted a role by. */
  readonly name: string;
  readonly groups: readonly string[];
}

const EVERYBODY = "*";

/**
 * As whom a person may enter: the greatest role that is granted to the name or to a group. An operator of some sources only
 * may act on these, and look at everything. Undefined: no role was granted.
 */
export function findAccess(
  { operators, viewers }: Pick<SignOn, "operators" | "viewers">,
  { name, groups }: Person,
): Viewer | undefined {
  const isTheirs = (grant: Grant) =>
    grant.name === EVERYBODY || grant.name === name || groups.includes(grant.name);
  const acting = operators.filter(isTheirs);
  if (acting.length > 0) {
    const sources = acting.map(({ sourceId }) => sourceId).filter((sourceId) => sourceId !== null);
    const isWhole = sources.length < acting.length;
    return { role: "operator", person: name, sources: isWhole ? null : [...new Set(sources)] };
  }
  return viewers.some(isTheirs) ? { role: "viewer", person: name, sources: null } : undefined;
}
