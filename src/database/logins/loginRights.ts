import pg from "pg";
import type { Pool } from "../database.ts";
import { listLacking, readLogin } from "./roleRights.sql.ts";
import { parseRights, readRolesFile } from "./roleRights.ts";

/** The group roles of config/postgres-roles.sql. */
export const ALL_GROUPS = [
  "order_mirror_web",
  "order_mirror_worker",
  "order_mirror_poller",
  "order_mirror_retention",
] as const;
export type Group = (typeof ALL_GROUPS)[number];

export interface LoginRights {
  readonly login: string;
  readonly isOwner: boolean;
  readonly groups: readonly string[];
  /** The needed groups whose rights the login lacks. */
  readonly missingGroups: readonly Group[];
  /** Rights that its groups should grant but do not, such as `insert on mirror.inbox`. */
  readonly lacking: readonly string[];
}

/** Compares the login's rights with those that config/postgres-roles.sql grants to the groups in `needs`. */
export async function examineLogin(pool: Pool, needs: readonly Group[]): Promise<LoginRights> {
  const login = await readLogin(pool);
  if (login.isOwner) return { ...login, missingGroups: [], lacking: [] };
  const rights = parseRights(await readRolesFile());
  const lacking = await listLacking(
    pool,
    rights.filter(({ role }) => login.groups.includes(role)),
  );
  return { ...login, missingGroups: needs.filter((group) => !login.groups.includes(group)), lacking };
}

/** The problems of a login, each with its fix; empty if it has all the rights it needs. */
export function tellLacking(rights: LoginRights): { readonly sentence: string; readonly fix: string }[] {
  const { login, missingGroups, lacking } = rights;
  const missing = missingGroups.map((group) => ({
    sentence: `The login ${login} is not a member of ${group}.`,
    fix: `psql, as the owner: grant ${group} to ${pg.escapeIdentifier(login)};`,
  }));
  if (lacking.length === 0) return missing;
  const more = lacking.length > NAMED_MAX ? ` and ${lacking.length - NAMED_MAX} more` : "";
  const sentence = `The login ${login} lacks rights: ${lacking.slice(0, NAMED_MAX).join(", ")}${more}.`;
  const fix = "Run `order-mirror migrate --roles` as the owner of the database, after every upgrade.";
  return [...missing, { sentence, fix }];
}

const NAMED_MAX = 4;

/** The groups that a process must be a member of, given its configuration. */
export function listNeededGroups(
  service: "up" | "web" | "worker" | "poller",
  does: { readonly writesThrough: boolean; readonly removesOld: boolean },
): readonly Group[] {
  const groups = new Set<Group>(
    service === "up"
      ? ["order_mirror_web", "order_mirror_worker", "order_mirror_poller"]
      : [`order_mirror_${service}`],
  );
  if (groups.has("order_mirror_web") && does.writesThrough) groups.add("order_mirror_worker");
  if ((service === "up" || service === "worker") && does.removesOld) groups.add("order_mirror_retention");
  return [...groups];
}
