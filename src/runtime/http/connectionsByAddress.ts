import type { Server } from "node:http";
import type { Socket } from "node:net";
import { addressGroup } from "./addressGroup.ts";

interface Client {
  readonly connections: Set<Socket>;
  /** Connections that are not read until it is their turn. */
  readonly unread: Socket[];
}

interface ConnectionsByAddress {
  /** From now on, connections from this address are read one after another, one in each turn of the event loop. */
  readonly readInTurn: (socket: Socket) => void;
}

/**
 * Tracks the connections of each address: refuses more than `perAddressMax` of them, and reads them one after another when
 * `readInTurn` is called, for an address that floods or may. Otherwise everything that hundreds of connections have sent
 * would be one block of work, and other clients would have to wait for its end.
 */
export function trackConnections(
  server: Server,
  {
    perAddressMax,
    isAnswering,
    onRefused,
  }: { perAddressMax: number; isAnswering: (socket: Socket) => boolean; onRefused: () => void },
): ConnectionsByAddress {
  const clients = new Map<string, Client>();
  const addresses = new WeakMap<Socket, string>();

  server.on("connection", (socket: Socket) => {
    const address = addressGroup(socket.remoteAddress ?? "");
    const client = clients.get(address) ?? { connections: new Set(), unread: [] };
    if (client.connections.size >= perAddressMax) {
      socket.destroy();
      onRefused();
      return;
    }
    clients.set(address, client);
    addresses.set(socket, address);
    client.connections.add(socket);
    if (client.unread.length > 0) leaveUnread(client, socket);
    socket.once("close", () => {
      client.connections.delete(socket);
      if (client.connections.size === 0) clients.delete(address);
    });
  });

  function readInTurn(socket: Socket): void {
    const client = clients.get(addresses.get(socket) ?? "");
    if (client === undefined || client.unread.length > 0) return;
    for (const each of client.connections) if (!isAnswering(each)) leaveUnread(client, each);
    if (client.unread.length > 0) setImmediate(readNext, client);
  }

  function leaveUnread({ unread }: Client, socket: Socket): void {
    socket.pause();
    unread.push(socket);
  }

  function readNext(client: Client): void {
    client.unread.shift()?.resume();
    if (client.unread.length > 0) setImmediate(readNext, client);
  }

  return { readInTurn };
}
