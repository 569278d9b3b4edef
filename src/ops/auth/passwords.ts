import { digestSecret, matchesDigest } from "../../runtime/secretDigest.ts";

/** A viewer sees everything and changes nothing. */
export type Role = "operator" | "viewer";

export const OPS_ROLES: readonly Role[] = ["operator", "viewer"];

/** What each role logs in with; null: that role does not exist. */
export type PasswordByRole = Readonly<Record<Role, string | null>>;

/**
 * The role whose password it is, of those asked for; undefined when it is none of them. All are compared, whichever
 * matches, with a stand-in where a role has none: the time does not tell which roles exist.
 */
export function makePasswordCheck(passwords: PasswordByRole) {
  const nothing = digestSecret("");
  const digests = OPS_ROLES.map((role) => {
    const password = passwords[role];
    return { role, exists: password !== null, digest: password === null ? nothing : digestSecret(password) };
  });
  return function findRole(password: string, wanted: readonly Role[] = OPS_ROLES): Role | undefined {
    const matching = digests.filter(({ digest }) => matchesDigest(password, digest));
    return matching.find(({ role, exists }) => exists && wanted.includes(role))?.role;
  };
}
