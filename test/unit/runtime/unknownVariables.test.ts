import { expect, it } from "vitest";
import { remarkOnNames } from "../../../src/runtime/config/environment.ts";

const remarksOn = (...names: string[]) =>
  remarkOnNames(Object.fromEntries(names.map((name) => [name, "secret-text"])), null);

it.each(["OPS_PASWORD", "DELIVERY_URL", "POLL_INTERVAL", "SANDBOX_PORT_FILE"])(
  "names the variable %s, which nothing reads",
  (name) => {
    expect(remarksOn(name)).toEqual([expect.stringMatching(`^${name} is set, but nothing reads it\\.`)]);
  },
);

it("says nothing about our own and other programs' variables", () => {
  const others = ["PATH", "HOSTNAME", "POST", "POSTGRES_PASSWORD", "LOGNAME", "NODE_ENV"];
  expect(remarksOn("OPS_PASSWORD", "OPS_PASSWORD_FILE", "PORT", ...others)).toEqual([]);
});
