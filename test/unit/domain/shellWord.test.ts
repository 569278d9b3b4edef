import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";
import { commandOn, shellWord } from "../../../src/domain/shellWord.ts";

const NASTY = [
  "DO-1",
  "a b",
  "it's",
  '"',
  "$HOME",
  "$(id)",
  "`id`",
  "a;b",
  "a\\b",
  "*",
  "~",
  "#1",
  "-n",
  "a\nb",
  "Ü",
];

it("is read by a shell as the same text", () => {
  // The program gets each word as the shell read it.
  const program = "process.stdout.write(JSON.stringify(process.argv.slice(1)))";
  const script = `"$NODE" -e "$PROGRAM" -- ${NASTY.map(shellWord).join(" ")}`;
  const env = { ...process.env, NODE: process.execPath, PROGRAM: program };
  expect(JSON.parse(execFileSync("/bin/sh", ["-c", script], { env, encoding: "utf8" }))).toEqual(NASTY);
});

it("quotes what other shells expand: zsh a word that begins with =, PowerShell and cmd the others", () => {
  expect(["=DO-1", "%DO%", "@DO", "a,b"].map(shellWord)).toEqual(["'=DO-1'", "'%DO%'", "'@DO'", "'a,b'"]);
});

it("quotes only what needs it, and keeps a hyphen from being an option", () => {
  expect(commandOn("refetch --source live", "DO-1")).toBe("order-mirror refetch --source live DO-1");
  expect(commandOn("order", "-1 2")).toBe("order-mirror order -- '-1 2'");
});
