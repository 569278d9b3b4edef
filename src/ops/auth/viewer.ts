import type { RequestHandler, Response } from "express";
import { isSameOrigin } from "../../runtime/http/loopback.ts";
import { digestSecret, matchesDigest } from "../../runtime/secretDigest.ts";
import { refuse } from "../html/requests.ts";

/** A viewer sees everything and changes nothing. */
export type Role = "operator" | "viewer";

const OPS_ROLES: readonly Role[] = ["operator", "viewer"];

/** Each role's password; null: the role does not exist. */
export type PasswordByRole = Readonly<Record<Role, string | null>>;

/** The person or program that views a page. */
export interface Viewer {
  readonly role: Role;
  /** The name from single sign-on; null: anybody who knows the role's password, or a trusted local program. */
  readonly person: string | null;
  /** It has a session, which can be ended; programs and people named by a proxy have none. */
  readonly hasSession?: boolean;
  /** How much waits for a person, by the section of the pages that shows it. */
  readonly waiting?: Readonly<Record<string, number>>;
}

const NOBODY: Viewer = { role: "viewer", person: null };

export function enter(response: Response, viewer: Viewer, next: () => void): void {
  response.locals["viewer"] = viewer;
  next();
}

export function viewerOf(response: Response): Viewer {
  const viewer = response.locals["viewer"] as Viewer | undefined;
  return viewer ?? NOBODY;
}

/** Whether buttons are offered that change something. */
export function mayAct({ role }: Viewer): boolean {
  return role === "operator";
}

export function actorOf(response: Response): Pick<Viewer, "role" | "person"> {
  const { role, person } = viewerOf(response);
  return { role, person };
}

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

const READING = new Set(["GET", "HEAD"]);

/** Refuses (403) what another site's page made a browser send. */
export const refuseOtherSites: RequestHandler = (request, response, next) => {
  if (isSameOrigin(request)) return next();
  refuse(response, 403, "This request came from another site.");
};

/**
 * A change needs the operator (405 for a viewer) and must not come from another site's page (403): browsers attach the
 * session to any request.
 */
export const guardWrites: RequestHandler = (request, response, next) => {
  if (READING.has(request.method)) return next();
  if (!mayAct(viewerOf(response))) {
    return refuse(response.set("Allow", "GET, HEAD"), 405, "A viewer cannot change anything.");
  }
  return refuseOtherSites(request, response, next);
};
