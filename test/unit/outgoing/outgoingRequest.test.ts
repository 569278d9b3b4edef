import type { lookup } from "node:dns";
import { describe, expect, it } from "vitest";
import { acceptedAddresses, makeLookup, postOutgoing } from "../../../src/outgoing/outgoingSend.ts";
import { isPrivateAddress } from "../../../src/runtime/http/privateAddress.ts";

const PRIVATE = [
  "127.0.0.1",
  "10.0.0.1",
  "172.31.255.255",
  "192.168.1.1",
  "169.254.169.254",
  "100.64.0.1",
  "0.0.0.0",
  "224.0.0.1",
  "255.255.255.255",
  "::1",
  "::",
  "fe80::1",
  "fd00::1",
  "ff02::1",
  "::ffff:10.0.0.1",
  "::ffff:169.254.169.254",
  "64:ff9b::a00:1",
  "64:ff9b:1::a00:1",
  "::10.0.0.1",
  "::ffff:a9fe:a9fe",
  "2001:0:a9fe:a9fe::1",
  "2002:a9fe:a9fe::1",
  "not an address",
];

it.each(PRIVATE)("%s is private", (address) => expect(isPrivateAddress(address)).toBe(true));
it.each(["8.8.8.8", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8"])("%s is public", (address) =>
  expect(isPrivateAddress(address)).toBe(false),
);

/** Answers as a malicious name server does. */
function resolveTo(...addresses: string[]): typeof lookup {
  const answer = (_name: string, _options: object, done: (...found: unknown[]) => void) =>
    done(
      null,
      addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 })),
    );
  return answer as unknown as typeof lookup;
}

function look(text: string, allowPrivate: boolean, ...addresses: string[]): Promise<unknown> {
  const find = makeLookup(acceptedAddresses(new URL(text), allowPrivate), resolveTo(...addresses));
  const { hostname } = new URL(text);
  return new Promise((resolve, reject) => {
    find(hostname, { all: true }, (error, found) => (error ? reject(error) : resolve(found)));
  });
}

describe("the address of a name", () => {
  const url = "https://hooks.example/";

  it("is checked at connect time, and private addresses are skipped", async () => {
    await expect(look(url, false, "10.0.0.1", "::1")).rejects.toMatchObject({ code: "ERR_PRIVATE_ADDRESS" });
    expect(await look(url, false, "10.0.0.1", "8.8.8.8")).toEqual([{ address: "8.8.8.8", family: 4 }]);
    expect(await look(url, true, "10.0.0.1")).toEqual([{ address: "10.0.0.1", family: 4 }]);
  });

  it("is local only for a name of this machine", async () => {
    await expect(look("http://any.localhost/", false, "8.8.8.8")).rejects.toMatchObject({
      code: "ERR_PRIVATE_ADDRESS",
    });
    expect(await look("http://localhost/", false, "127.0.0.1")).toEqual([
      { address: "127.0.0.1", family: 4 },
    ]);
  });

  it.each([
    "https://10.0.0.1/",
    "https://169.254.169.254/latest/meta-data",
    "https://[::ffff:a00:1]/",
    "https://2130706434.example@0x0a000001/",
  ])("is refused before anything is sent when it stands in the address itself: %s", async (text) => {
    const options = { headers: {}, body: Buffer.from("{}"), timeoutMs: 1_000, allowPrivate: false };
    await expect(postOutgoing(new URL(text), options)).rejects.toMatchObject({ code: "ERR_PRIVATE_ADDRESS" });
  });
});
