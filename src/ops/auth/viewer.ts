import type { Response } from "express";
import type { Role } from "./passwords.ts";

/** Who looks at a page. */
export interface Viewer {
  readonly role: Role;
  /** As single sign-on named the person; null: whoever knows the password of the role, or is trusted for being here. */
  readonly person: string | null;
  /** Sources that an operator may act on, and only on them; null: on all, and on what is of none. */
  readonly sources: readonly string[] | null;
  /** The session of the browser, which can be ended; a program, and a person whom a proxy names, have none. */
  readonly session?: string;
}

/** As whom something is done, for the audit log. */
type Actor = Pick<Viewer, "role" | "person">;

const NOBODY: Viewer = { role: "viewer", person: null, sources: null };

/** Lets the request in. */
export function enter(response: Response, viewer: Viewer, next: () => void): void {
  response.locals["viewer"] = viewer;
  next();
}

/** Who looks at this page. */
export function viewerOf(response: Response): Viewer {
  const viewer = response.locals["viewer"] as Viewer | undefined;
  return viewer ?? NOBODY;
}

/** Whether this operator may act on a source; null: on all of them at once. */
export function mayActOn(response: Response, sourceId: string | null): boolean {
  const { sources } = viewerOf(response);
  return sources === null || (sourceId !== null && sources.includes(sourceId));
}

/** As whom this request acts. */
export function actorOf(response: Response): Actor {
  const { role, person } = viewerOf(response);
  return { role, person };
}
