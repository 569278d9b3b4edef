import type { AddressInfo, Server } from "node:net";
import { UnavailableError } from "../../domain/errors.ts";

/** Returns the port (a free one for 0). Throws UnavailableError if port or host cannot be used. */
export async function listenOn(
  server: Server,
  place: { host: string; port: number; portVariable: string },
): Promise<number> {
  const { host, port } = place;
  await new Promise<void>((resolve, reject) => {
    const refuse = (error: NodeJS.ErrnoException) => reject(explain(error, place));
    server.once("error", refuse);
    server.listen({ host, port }, () => {
      server.off("error", refuse);
      resolve();
    });
  });
  return (server.address() as AddressInfo).port;
}

/** The address at which a program on this machine reaches a server that listens on `host`. */
export function localUrl(host: string, port: number): string {
  const name = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  return `http://${name.includes(":") ? `[${name}]` : name}:${port}`;
}

function explain(
  error: NodeJS.ErrnoException,
  { host, port, portVariable }: { host: string; port: number; portVariable: string },
): Error {
  if (error.code === "EADDRINUSE") {
    const fix = `Stop the program that uses it, or set ${portVariable} to another port.`;
    return new UnavailableError(`Port ${port} on ${host} is taken.`, { cause: error, fix });
  }
  if (error.code === "EACCES") {
    const message = `This account may not use port ${port} on ${host}.`;
    return new UnavailableError(message, { cause: error, fix: `Set ${portVariable} to another port.` });
  }
  if (error.code === "EADDRNOTAVAIL" || error.code === "ENOTFOUND") {
    const message = `${host} is not an address of this machine.`;
    return new UnavailableError(message, { cause: error, fix: "Correct HOST." });
  }
  return error;
}
