import type { Response } from "express";
import type { Role } from "./passwords.ts";

/** The person or program that views a page. */
export interface Viewer {
  readonly role: Role;
  /** The name from single sign-on; null: anybody who knows the role's password, or a trusted local program. */
  readonly person: string | null;
  /** The only sources that an operator may act on; null: all, including actions without a source. */
  readonly sources: readonly string[] | null;
  /** The browser's session, which can be ended; programs and people named by a proxy have none. */
  readonly session?: string;
}

type Actor = Pick<Viewer, "role" | "person">;

const NOBODY: Viewer = { role: "viewer", person: null, sources: null };

export function enter(response: Response, viewer: Viewer, next: () => void): void {
  response.locals["viewer"] = viewer;
  next();
}

export function viewerOf(response: Response): Viewer {
  const viewer = response.locals["viewer"] as Viewer | undefined;
  return viewer ?? NOBODY;
}

/** Whether this operator may act on a source; null: on all of them together. */
export function mayActOn(response: Response, sourceId: string | null): boolean {
  return isTheirs(viewerOf(response), sourceId);
}

/** The same for anybody: viewers may act on nothing. */
export function mayAct(viewer: Viewer, sourceId: string | null): boolean {
  return viewer.role === "operator" && isTheirs(viewer, sourceId);
}

function isTheirs({ sources }: Viewer, sourceId: string | null): boolean {
  return sources === null || (sourceId !== null && sources.includes(sourceId));
}

export function actorOf(response: Response): Actor {
  const { role, person } = viewerOf(response);
  return { role, person };
}
