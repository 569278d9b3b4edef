import { describe, expect, it } from "vitest";
import { remarkOnNames } from "../../../src/runtime/config/environment.ts";

const remarksOn = (...names: string[]) =>
  remarkOnNames(Object.fromEntries(names.map((name) => [name, "secret-text"])), null);

describe("an unknown variable is reported with a suggestion", () => {
  it.each([
    ["OPS_PASWORD", "OPS_PASSWORD"],
    ["OPS_PASSWROD", "OPS_PASSWORD"],
    ["DATABSE_URL", "DATABASE_URL"],
    ["DATADIR", "DATA_DIR"],
    ["ops_password", "OPS_PASSWORD"],
    ["API_TOKEN_FILE", "API_TOKENS_FILE"],
    ["DELIVERY_URL", "DELIVERY_BASE_URL"],
  ])("%s: %s", (name, meant) => {
    expect(remarksOn(name)).toEqual([`${name} is set, but nothing reads it. Did you mean ${meant}?`]);
  });
});

it("ignores our own and other programs' variables", () => {
  const others = [
    "PATH",
    "HOME",
    "HOSTNAME",
    "POST",
    "USER",
    "PGHOST",
    "POSTGRES_PASSWORD",
    "LOGNAME",
    "NODE_ENV",
  ];
  expect(remarksOn("OPS_PASSWORD", "OPS_PASSWORD_FILE", "PORT", ...others)).toEqual([]);
});
