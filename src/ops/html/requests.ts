import type { IncomingMessage } from "node:http";
import { urlencoded } from "express";
import type { Request, RequestHandler, Response } from "express";

/** A parameter's text; empty if it is absent or given twice. NUL, which Postgres refuses, is removed. */
export function readField(value: unknown): string {
  return typeof value === "string" ? value.replaceAll("\0", "") : "";
}

/** Parses the form of a request, for readForm. */
export const parseForm: RequestHandler = urlencoded({ extended: false, limit: "8kb" });

/** The fields of a form; none if there was no form. */
export function readForm(request: Request): Readonly<Record<string, unknown>> {
  return (request.body ?? {}) as Record<string, unknown>;
}

/** The value of a cookie; empty where there is none. */
export function readCookie({ headers }: IncomingMessage, name: string): string {
  const cookies = (headers.cookie ?? "").split(";").map((pair) => pair.trim().split("=", 2));
  return cookies.find(([each]) => each === name)?.[1] ?? "";
}

/** Answers with one sentence instead of a page. */
export function refuse(response: Response, status: number, sentence: string): void {
  response.status(status).type("text/plain").send(`${sentence}\n`);
}
