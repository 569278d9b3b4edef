import type { Grant, SignOn } from "../../runtime/config/signOnVariables.ts";
import type { Viewer } from "./viewer.ts";

/** A person as named by single sign-on. */
export interface Person {
  /** For the audit log and for granting roles. */
  readonly name: string;
  readonly groups: readonly string[];
}

const EVERYBODY = "*";

/**
 * The access of a person: the highest role granted to the name or to a group. An operator of some sources may act on
 * those only, and see everything. Undefined: no role was granted.
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
