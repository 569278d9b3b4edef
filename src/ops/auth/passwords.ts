import { digestSecret, matchesDigest } from "../../runtime/secretDigest.ts";

/** A viewer sees everything and changes nothing. */
export type Role = "operator" | "viewer";

export const OPS_ROLES: readonly Role[] = ["operator", "viewer"];

/** Each role's password; null: the role does not exist. */
export type PasswordByRole = Readonly<Record<Role, string | null>>;

/**
 * The role that the password belongs to, among those asked for; undefined if none. It compares all of them, with a
 * placeholder for roles without a password, so that the time does not reveal which roles exist.
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
